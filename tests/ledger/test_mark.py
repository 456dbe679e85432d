"""A ledger that goes back is noticed: by what this process saw, and by what it kept outside the ledger."""

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, delete, text, update
from structlog.testing import capture_logs

from holdfast.domain.stock.command import Move, Provision, Transition, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.errors import LedgerWentBack, Unavailable
from holdfast.gate.sql import SqlGate
from holdfast.ledger.chain.checkpoint import CheckpointKey
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.mark.mark import Acknowledged, KeptMark, Mark, begin_incarnation, read_mark
from holdfast.ledger.mark.mark_file import MarkFile, write_durably
from holdfast.ledger.mark.watch import LedgerWatch
from holdfast.ledger.stock.pruning import LEAST_KEPT_MS
from holdfast.ledger.tables.incarnations import incarnations
from holdfast.ledger.tables.stock import events, reservations
from holdfast.runtime.signing import SigningKey
from holdfast.testing.states import SKU, reserve
from holdfast.verify.history import compare
from linked import link_all

PLACE = "postgresql://db/shop"


@pytest.fixture
async def opened(database_url: str) -> AsyncIterator[Database]:
    """Of its own: what a database was seen to have stays with it."""
    database = open_database(database_url, connections=2)
    yield database
    await database.close()


@pytest.fixture
def file(tmp_path: Path) -> MarkFile:
    return MarkFile(tmp_path / "ledger-mark.json")


async def sold(database: Database) -> SqlGate:
    gate = SqlGate(database)
    await gate.apply(SKU, [Provision(100)])
    await gate.apply(SKU, [reserve(f"rsv_{n}") for n in range(3)])
    return gate


def watching(database: Database, file: MarkFile, tmp_path: Path, gate: SqlGate | None = None) -> LedgerWatch:
    watch = LedgerWatch(database, PLACE, [file], tmp_path)
    return watch if gate is None else LedgerWatch(database, PLACE, [file], tmp_path, gate.acknowledged)


async def restarted(database: Database, file: MarkFile, tmp_path: Path) -> LedgerWatch:
    database.guard.finding = database.guard.compare = None
    watch = watching(database, file, tmp_path)
    await watch.start()
    return watch


def lose_latest_event(connection: Connection) -> None:
    mark = read_mark(connection)
    assert mark is not None
    connection.execute(delete(events).where(events.c.seq == mark.seq))


def exported(directory: Path) -> Any:
    [export] = directory.glob("ledger-went-back-*.json")
    return json.loads(export.read_bytes())


async def test_a_ledger_behind_its_mark_is_not_written_to(opened: Database, file: MarkFile, tmp_path: Path) -> None:
    watch = watching(opened, file, tmp_path, gate := await sold(opened))
    await watch.start()
    await opened.write(lose_latest_event)
    await watch.pass_once()
    assert watch.finding is not None
    with pytest.raises(LedgerWentBack, match="holdfast recover"):
        await gate.apply(SKU, [reserve("rsv_9", "bob")])
    assert await opened.read(read_mark) is not None


async def test_a_server_that_starts_on_an_old_backup_finds_the_mark_in_its_file(
    opened: Database, file: MarkFile, tmp_path: Path
) -> None:
    await sold(opened)
    await watching(opened, file, tmp_path).start()
    await opened.write(lose_latest_event)
    watch = await restarted(opened, file, tmp_path)
    assert "was seen before" in str(watch.finding)


async def test_a_ledger_that_went_back_and_was_written_to_since_is_noticed(
    opened: Database, file: MarkFile, tmp_path: Path
) -> None:
    await sold(opened)
    await watching(opened, file, tmp_path).start()
    await opened.write(lambda c: c.execute(update(events).values(at=events.c.at + 1)))
    watch = await restarted(opened, file, tmp_path)
    assert "is not the one" in str(watch.finding)


async def test_an_acknowledged_reservation_that_is_gone_is_noticed_before_the_next_sample(
    opened: Database, file: MarkFile, tmp_path: Path
) -> None:
    watch = watching(opened, file, tmp_path, gate := await sold(opened))
    await watch.start()
    await gate.apply(SKU, [reserve("rsv_9", "bob")])

    def lose(connection: Connection) -> None:
        connection.execute(delete(events).where(events.c.reservation_id == "rsv_9"))
        connection.execute(delete(reservations).where(reservations.c.reservation_id == "rsv_9"))

    await opened.write(lose)
    await watch.pass_once()
    assert "rsv_9" in str(watch.finding)
    assert reservations_of(exported(tmp_path)) == ["rsv_9", "rsv_2", "rsv_1", "rsv_0"], "latest first, lost or not"


async def test_what_was_acknowledged_is_exported_even_if_the_ledger_does_not_answer(
    opened: Database, file: MarkFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody may decide meanwhile, and would not know of it."""
    watch = watching(opened, file, tmp_path, gate := await sold(opened))
    await watch.start()
    await opened.write(lose_latest_event)
    await opened.read(watch._sample)
    monkeypatch.setattr(opened, "read", fail)
    with pytest.raises(Unavailable):
        await watch.pass_once()
    assert len(exported(tmp_path)["reservations"]) == 3
    # A batch that was under way is answered.
    gate._answered.append((time.monotonic(), [reserve("rsv_9")], [held("rsv_9")]))
    with pytest.raises(Unavailable):
        await watch.pass_once()
    assert reservations_of(exported(tmp_path))[0] == "rsv_9"


async def test_what_was_acknowledged_is_exported_while_a_sample_hangs(
    opened: Database, file: MarkFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new connection of this process has found out meanwhile."""
    watch, read = watching(opened, file, tmp_path, await sold(opened)), opened.read
    await watch.start()
    await opened.write(lose_latest_event)
    is_hanging = asyncio.Event()

    async def hang(_work: object) -> None:
        monkeypatch.setattr(opened, "read", read)
        is_hanging.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(opened, "read", hang)
    passing = asyncio.create_task(watch.pass_once())
    await is_hanging.wait()
    await read(watch._sample)
    await passing
    assert len(exported(tmp_path)["reservations"]) == 3


async def fail(_work: object) -> None:
    raise Unavailable("it hangs")


def held(reservation_id: str) -> Verdict:
    return Verdict(Outcome.RESERVED, Reservation(reservation_id, SKU, "ada", 1, Status.ACTIVE, 1, 2))


def reservations_of(export: Any) -> list[str]:
    return [each["reservation"]["reservation_id"] for each in export["reservations"]]


@pytest.mark.parametrize("first_use", ["write", "read", "lock_free_read"])
async def test_a_new_connection_is_compared_before_its_first_use(
    postgres_database_url: str, file: MarkFile, tmp_path: Path, first_use: str
) -> None:
    """As after a failover: nothing is written that the next sample would be too late for."""
    ours, operator = (open_database(postgres_database_url, connections=1) for _ in range(2))
    try:
        watch = watching(ours, file, tmp_path, gate := await sold(ours))
        await watch.start()
        await operator.write(lose_latest_event)
        await operator.read(end_other_sessions)
        with pytest.raises(Unavailable):
            await ours.read(read_mark)
        if first_use == "write":
            with pytest.raises(LedgerWentBack):
                await gate.apply(SKU, [reserve("rsv_9", "bob")])
        else:
            assert await getattr(ours, first_use)(read_mark) is not None
        assert watch.finding is not None
    finally:
        await ours.close()
        await operator.close()


def end_other_sessions(connection: Connection) -> None:
    ours = "datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    connection.execute(text(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {ours}"))


async def test_a_confirmation_that_is_gone_is_noticed(opened: Database, file: MarkFile, tmp_path: Path) -> None:
    await sold(opened)
    stored = (await opened.read(lambda c: c.execute(reservations.select()).all()))[0]
    confirmed = Acknowledged(Reservation(stored.reservation_id, SKU, "ada", 1, Status.CONFIRMED, 1, 2))
    watch = LedgerWatch(opened, PLACE, [file], tmp_path, lambda _count: [confirmed])
    await watch.start()
    await watch.pass_once()
    assert stored.reservation_id in str(watch.finding)


async def test_the_latest_acknowledged_come_first_as_they_are_now_and_with_their_keys(opened: Database) -> None:
    gate = await sold(opened)
    await gate.apply(SKU, [reserve("rsv_8", "bob", key="k-8"), reserve("rsv_9", "cy", key="k-9")])
    await gate.apply(SKU, [Move(Transition.CONFIRM, "rsv_8")])
    latest = gate.acknowledged(3)
    assert [each.reservation_id for each in latest] == ["rsv_8", "rsv_9", "rsv_2"]
    assert latest[0].reservation.status is Status.CONFIRMED
    assert [each.key for each in latest[:2]] == ["k-8", "k-9"]
    assert len(gate.acknowledged(100)) == 5


@pytest.mark.parametrize("is_locked", [True, False])
async def test_a_grant_whose_answer_was_lost_is_remembered_by_the_server_that_repeats_it(
    opened: Database, is_locked: bool
) -> None:
    await SqlGate(opened).apply(SKU, [Provision(1), reserve("rsv_8", "bob", key="k")])
    gate = SqlGate(opened)
    if not is_locked:
        await gate.apply(SKU, [reserve("rsv_9")])
        assert SKU in gate._unchanged
    await gate.apply(SKU, [reserve("rsv_9", "bob", key="k")])
    assert [(each.reservation_id, each.key) for each in gate.acknowledged(9)] == [("rsv_8", "k")]


async def test_a_repeat_does_not_hide_what_became_of_the_reservation(opened: Database) -> None:
    gate = SqlGate(opened)
    await gate.apply(SKU, [Provision(1), reserve("rsv_8", "bob", key="k")])
    await gate.apply(SKU, [Move(Transition.CONFIRM, "rsv_8")])
    await gate.apply(SKU, [reserve("rsv_9", "bob", key="k")])
    [latest] = gate.acknowledged(9)
    assert (latest.reservation.status, latest.key) == (Status.CONFIRMED, "k")


async def test_what_was_acknowledged_long_ago_may_have_been_deleted_since(
    opened: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = await sold(opened)
    days_later = time.monotonic() + LEAST_KEPT_MS / 1000
    monkeypatch.setattr("holdfast.gate.sql.monotonic", lambda: days_later)
    assert gate.acknowledged(100) == []
    await gate.apply(SKU, [reserve("rsv_9", "bob")])
    assert [each.reservation_id for each in gate.acknowledged(100)] == ["rsv_9"]


async def test_another_ledger_at_the_same_address_is_a_loss_and_at_another_address_is_not(
    opened: Database, file: MarkFile, tmp_path: Path
) -> None:
    await file.write(KeptMark(PLACE, Mark("unheard-of", 7)))
    assert (await restarted(opened, file, tmp_path)).finding is not None
    await file.write(KeptMark("postgresql://elsewhere/shop", Mark("unheard-of", 7)))
    assert (await restarted(opened, file, tmp_path)).finding is None
    kept = await file.read()
    assert kept is not None
    assert kept.place == PLACE


async def test_a_backup_restored_at_another_address_is_noticed(
    opened: Database, file: MarkFile, tmp_path: Path
) -> None:
    await sold(opened)
    await watching(opened, file, tmp_path).start()
    kept = await file.read()
    assert kept is not None
    await file.write(KeptMark("postgresql://elsewhere/shop", kept.mark))
    await opened.write(lose_latest_event)
    assert (await restarted(opened, file, tmp_path)).finding is not None


async def test_a_backup_from_before_a_recovery_is_noticed_at_another_address(
    opened: Database, file: MarkFile, tmp_path: Path
) -> None:
    """It does not list the incarnation that was seen, but has the same first one."""
    await watching(opened, file, tmp_path, await sold(opened)).start()
    later = await opened.write(lambda c: begin_incarnation(c, 2, 0))
    await restarted(opened, file, tmp_path)
    kept = await file.read()
    assert kept is not None
    assert kept.mark.incarnation == later
    await file.write(KeptMark("postgresql://elsewhere/shop", kept.mark))
    await opened.write(lambda c: c.execute(delete(incarnations).where(incarnations.c.incarnation == later)))
    assert (await restarted(opened, file, tmp_path)).finding is not None


async def test_once_a_person_has_decided_the_ledger_is_used_again(
    opened: Database, file: MarkFile, tmp_path: Path
) -> None:
    watch = watching(opened, file, tmp_path, gate := await sold(opened))
    await watch.start()
    await opened.write(lose_latest_event)
    await watch.pass_once()
    opened.guard.finding, found = None, opened.guard.finding
    await opened.write(lambda c: begin_incarnation(c, 2, 0))  # As `holdfast recover` does, in a process of its own.
    opened.guard.finding = found
    await watch.pass_once()
    assert watch.finding is None
    await gate.apply(SKU, [reserve("rsv_9", "bob")])
    assert (await restarted(opened, file, tmp_path)).finding is None


async def test_an_unreadable_mark_is_replaced(opened: Database, file: MarkFile, tmp_path: Path) -> None:
    (tmp_path / "ledger-mark.json").write_bytes(b"\x00")
    assert (await restarted(opened, file, tmp_path)).finding is None
    assert await file.read() is not None


async def test_servers_that_start_together_agree_on_the_incarnation(
    opened: Database, file: MarkFile, tmp_path: Path
) -> None:
    for _ in range(2):
        await watching(opened, file, tmp_path).start()
    assert len(await opened.read(lambda c: c.execute(incarnations.select()).all())) == 1


def test_a_mark_may_be_written_twice_at_once(tmp_path: Path) -> None:
    file, contents = tmp_path / "ledger-mark.json", [bytes([value]) * 4096 for value in range(40)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda content: write_durably(file, content), contents))
    assert file.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [file]


async def test_a_stored_mark_has_the_signed_head_of_the_chain(opened: Database, file: MarkFile, tmp_path: Path) -> None:
    """Webhooks carry it too (`tests/outbox/test_deliverer.py`)."""
    watch = LedgerWatch(opened, PLACE, [file], tmp_path, key=CheckpointKey(SigningKey("k", "s" * 32)))
    await watch.start()
    assert watch.checkpoint is None
    await sold(opened)
    await link_all(opened)
    await watch.stop()
    stored = await file.read()
    assert stored is not None
    assert stored.checkpoint == watch.checkpoint
    assert watch.checkpoint is not None
    assert watch.checkpoint.is_signed
    assert (await opened.read(partial(compare, checkpoints=[watch.checkpoint])))[0].ok


async def test_a_server_that_cannot_store_its_mark_stops_all_the_same(opened: Database, tmp_path: Path) -> None:
    """Its data directory is gone, or its disk is full."""
    directory = tmp_path / "data"
    watch = LedgerWatch(opened, PLACE, [MarkFile(directory / "ledger-mark.json")], tmp_path)
    await watch.start()
    shutil.rmtree(directory)
    directory.touch()
    await sold(opened)
    with capture_logs() as logged:
        await watch.stop()
    assert [each["event"] for each in logged] == ["ledger_mark_not_stored"]
