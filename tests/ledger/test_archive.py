"""Ended months are copied to Parquet files, what is old is dropped, and the archive is proven by the ledger."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import func, select

from holdfast.domain.stock.command import Expire, Move, Provision, Reserve, Transition
from holdfast.errors import SettingsError
from holdfast.gate.sql import SqlGate
from holdfast.ledger.archive import runs as runs_module
from holdfast.ledger.archive import writing as writing_module
from holdfast.ledger.archive.dropping import drop_archived
from holdfast.ledger.archive.parquet import ParquetFile, digest_of, read_pages, schema_of
from holdfast.ledger.archive.runs import read_runs, write_run
from holdfast.ledger.archive.writing import CONTENT, archive_months, month_began, month_of
from holdfast.ledger.chain.links import Head
from holdfast.ledger.engine.database import Database
from holdfast.ledger.erasure.trial import erase_buyer
from holdfast.ledger.tables.stock import events, reservations
from holdfast.testing.states import SKU
from holdfast.verify.archives import check_archives
from holdfast.verify.check import Finding
from holdfast.verify.prove import prove
from linked import link_all
from set_clock import SetClock

DAY = 24 * 3_600_000
KEEP_DAYS = 7


@pytest.fixture
def clock(database: Database) -> SetClock:
    return SetClock(database)


async def trade(clock: SetClock, number: int) -> dict[str, str]:
    """One reservation of every ending, and one that goes on."""
    gate, names = SqlGate(clock), ("expired", "cancelled", "failed", "confirmed", "settling")
    ids = {name: f"rsv_{clock.now:012x}{number * 10 + n:020x}_{SKU}" for n, name in enumerate(names)}
    await gate.apply(SKU, [Provision(1000), *[Reserve(one, "ada", 2, 2, 60_000) for one in ids.values()]])
    moves = [("cancelled", Transition.CANCEL), ("confirmed", Transition.CONFIRM), ("failed", Transition.SETTLE)]
    moves += [("failed", Transition.FAIL), ("settling", Transition.SETTLE)]
    await gate.apply(SKU, [Move(transition, ids[name]) for name, transition in moves])
    clock.advance(61_000)
    await gate.apply(SKU, [Expire(100)])
    await link_all(clock)
    return ids


def to_next_month(clock: SetClock) -> None:
    """A day and an hour into it, when the last one is archived."""
    clock.now = month_began(month_began(clock.now) + 40 * DAY) + DAY + 3_600_000


def rows_of(directory: Path, table: str) -> list[dict[str, Any]]:
    files = sorted((directory / table).rglob("*.parquet"))
    return [row for file in files for page in read_pages(file) for row in page]


async def findings(database: Database, directory: Path) -> dict[str, Finding]:
    return {one.name: one for one in await database.read(lambda c: check_archives(c, directory))}


async def refuted(database: Database, directory: Path) -> list[str]:
    found = [*await database.read(prove), *(await findings(database, directory)).values()]
    return [one.name for one in found if not one.ok]


async def count(database: Database, table: Any) -> int:
    return await database.read(lambda c: c.execute(select(func.count()).select_from(table)).scalar_one())


async def test_an_ended_month_is_archived_and_then_dropped_and_everything_is_still_proven(
    clock: SetClock, database: Database, tmp_path: Path
) -> None:
    ids = await trade(clock, 1)
    month = month_of(clock.now)
    assert await archive_months(clock, tmp_path) is None
    to_next_month(clock)
    run = await archive_months(clock, tmp_path)
    assert run is not None
    assert {file.month for file in run.files} == {month}
    archived = {row["reservation_id"]: row["status"] for row in rows_of(tmp_path, "reservations")}
    assert archived == {id_: name for name, id_ in ids.items() if name != "settling"}
    assert len(rows_of(tmp_path, "events")) == await count(database, events)
    clock.advance(KEEP_DAYS * DAY)
    assert await drop_archived(clock, tmp_path, KEEP_DAYS) == 3
    assert await count(database, reservations) == 2
    await link_all(clock)
    assert await refuted(database, tmp_path) == []
    found = await findings(database, tmp_path)
    assert found["archive_complete"].count == 0
    assert found["archive_in_history"].looked_at == len(rows_of(tmp_path, "events"))


async def test_a_run_adds_only_what_is_new_and_what_came_late(clock: SetClock, tmp_path: Path) -> None:
    first = await trade(clock, 1)
    to_next_month(clock)
    await archive_months(clock, tmp_path)
    assert await archive_months(clock, tmp_path) is None
    late = clock.now
    second = await trade(clock, 2)
    # The money of the first month's purchase comes in the next one.
    await SqlGate(clock).apply(SKU, [Move(Transition.CONFIRM, first["settling"])])
    await link_all(clock)
    to_next_month(clock)
    run = await archive_months(clock, tmp_path)
    assert run is not None
    assert run.number == 2
    ended = [row["reservation_id"] for row in rows_of(tmp_path, "reservations")]
    assert sorted(ended) == sorted([*first.values(), *(id_ for name, id_ in second.items() if name != "settling")])
    seqs = [row["seq"] for row in rows_of(tmp_path, "events")]
    assert len(seqs) == len(set(seqs))
    [moved] = [f for f in run.files if f.table == "reservations" and f.month != month_of(late)]
    assert moved.rows == 1


def directories_in(directory: Path) -> set[Path]:
    return {path for path in directory.rglob("*") if path.is_dir()}


async def test_archives_from_before_and_after_a_buyer_was_erased_are_proven(
    clock: SetClock, database: Database, tmp_path: Path
) -> None:
    ids = await trade(clock, 1)
    to_next_month(clock)
    await archive_months(clock, tmp_path)
    await SqlGate(clock).apply(SKU, [Move(Transition.CONFIRM, ids["settling"])])
    await erase_buyer(database, "ada")
    await link_all(clock)
    assert await refuted(database, tmp_path) == []
    to_next_month(clock)
    run = await archive_months(clock, tmp_path)
    assert run is not None
    clock.advance(KEEP_DAYS * DAY)
    assert await drop_archived(clock, tmp_path, KEEP_DAYS) == 3
    await link_all(clock)
    assert await refuted(database, tmp_path) == []


async def test_every_directory_of_an_archive_is_on_disk_before_anything_is_deleted(
    clock: SetClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[Path] = set()
    for module in (runs_module, writing_module):
        monkeypatch.setattr(module, "sync", synced.add)
    await trade(clock, 1)
    to_next_month(clock)
    await archive_months(clock, tmp_path)
    assert directories_in(tmp_path) | {tmp_path} <= synced


async def test_what_is_not_in_the_archive_is_not_dropped(clock: SetClock, database: Database, tmp_path: Path) -> None:
    await trade(clock, 1)
    to_next_month(clock)
    run = await archive_months(clock, tmp_path)
    assert run is not None
    second = await trade(clock, 2)
    clock.advance(100 * DAY)
    assert await drop_archived(clock, tmp_path, KEEP_DAYS) == 3
    left = await database.read(lambda c: set(c.execute(select(reservations.c.reservation_id)).scalars()))
    assert left >= set(second.values())


async def test_a_changed_archive_is_found(clock: SetClock, database: Database, tmp_path: Path) -> None:
    await trade(clock, 1)
    to_next_month(clock)
    run = await archive_months(clock, tmp_path)
    assert run is not None
    [of_events] = [file for file in run.files if file.table == "events"]
    path = tmp_path / of_events.path
    intact = path.read_bytes()
    path.write_bytes(intact[:-1] + b"?")
    assert await refuted(database, tmp_path) == ["archive_files_intact", "archive_as_recorded"]
    # By someone who also changes the manifest.
    rows = [row for page in read_pages_of(intact, tmp_path) for row in page]
    rows[1] |= {CONTENT: rows[1][CONTENT].replace('"quantity":2', '"quantity":1'), "quantity": 1}
    file = ParquetFile(path, schema_of(list(events.c), CONTENT))
    file.write(rows)
    file.close()
    rewrite_manifest(tmp_path)
    assert "archive_in_history" in await refuted(database, tmp_path)
    path.unlink()
    assert "archive_files_intact" in await refuted(database, tmp_path)


def read_pages_of(content: bytes, directory: Path) -> list[list[dict[str, Any]]]:
    copy = directory / "copy.parquet"
    copy.write_bytes(content)
    pages = list(read_pages(copy))
    copy.unlink()
    return pages


def rewrite_manifest(directory: Path) -> None:

    [run] = read_runs(directory)
    files = [replace(file, sha256=digest_of(directory / file.path)) for file in run.files]
    write_run(directory, replace(run, files=files))


@pytest.mark.parametrize("of", ["events", "reservations"])
@pytest.mark.parametrize("damage", ["missing", "changed"])
async def test_nothing_is_deleted_whose_copy_is_not_in_the_archive_any_more(
    clock: SetClock, database: Database, tmp_path: Path, of: str, damage: str
) -> None:
    await trade(clock, 1)
    to_next_month(clock)
    run = await archive_months(clock, tmp_path)
    assert run is not None
    path = next(tmp_path / file.path for file in run.files if file.table == of)
    intact = path.read_bytes()
    path.unlink() if damage == "missing" else path.write_bytes(intact[:-1] + b"?")
    clock.advance(KEEP_DAYS * DAY)
    with pytest.raises(SettingsError, match=f"{path.name} is {damage}"):
        await drop_archived(clock, tmp_path, KEEP_DAYS)
    assert await count(database, reservations) == 5
    path.write_bytes(intact)
    assert await drop_archived(clock, tmp_path, KEEP_DAYS) == 3
    # What is gone from the ledger already is not looked for each time.
    path.unlink()
    assert await drop_archived(clock, tmp_path, KEEP_DAYS) == 0


async def test_an_archive_of_another_history_gets_nothing_and_nothing_is_deleted_for_it(
    clock: SetClock, tmp_path: Path
) -> None:
    await trade(clock, 1)
    to_next_month(clock)
    run = await archive_months(clock, tmp_path)
    assert run is not None
    await trade(clock, 2)
    longer, other = run.upto_seq + 1000, replace(run.head, root="0" * 64)
    for foreign in (replace(run, upto_seq=longer), replace(run, head=other)):
        write_run(tmp_path, foreign)
        with pytest.raises(SettingsError, match="does not have the history"):
            await archive_months(clock, tmp_path)
    # A run of a version that noted no head.
    write_run(tmp_path, replace(run, head=Head()))
    to_next_month(clock)
    assert await archive_months(clock, tmp_path) is not None
