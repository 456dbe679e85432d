"""A server learns that the ledger went back only after a person has decided how to continue."""

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, delete, select, update

from holdfast.domain.stock.command import Move, Provision, Transition
from holdfast.domain.stock.reservation import Status
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.mark.mark import begin_incarnation
from holdfast.ledger.mark.mark_file import MarkFile
from holdfast.ledger.mark.watch import LedgerWatch
from holdfast.ledger.stock.recovery.late_losses import apply_decision
from holdfast.ledger.tables.incarnations import incarnations
from holdfast.ledger.tables.stock import events, pools, reservations
from holdfast.testing.states import SKU, reserve
from ledger_snapshot import read_ledger_snapshot


@pytest.fixture
async def opened(database_url: str) -> AsyncIterator[Database]:
    """Of its own: what a database was seen to have stays with it."""
    database = open_database(database_url, connections=2)
    yield database
    await database.close()


async def sold(database: Database) -> SqlGate:
    gate = SqlGate(database)
    await gate.apply(SKU, [Provision(100)])
    await gate.apply(SKU, [reserve(f"rsv_{n}") for n in range(3)])
    return gate


async def watching(database: Database, gate: SqlGate, directory: Path) -> LedgerWatch:
    file = MarkFile(directory / "ledger-mark.json")
    contribute = partial(apply_decision, database)
    watch = LedgerWatch(database, "db/shop", [file], directory, gate.acknowledged, contribute=contribute)
    await watch.start()
    return watch


def lose_the_latest_hold(connection: Connection) -> None:
    """As in a copy from before it."""
    connection.execute(delete(events).where(events.c.reservation_id == "rsv_2"))
    connection.execute(delete(reservations).where(reservations.c.reservation_id == "rsv_2"))
    connection.execute(update(pools).values(held=pools.c.held - 1, active_reservations=pools.c.active_reservations - 1))


def decide(connection: Connection, *, restoring: bool) -> None:
    """As `holdfast recover` does where nobody else knows of a loss."""
    begin_incarnation(connection, 2, 0, report=json.dumps({"restoring": restoring, "restored": [], "given_up": []}))


async def reported(database: Database) -> tuple[list[str], list[str]]:
    report = json.loads(await database.read(lambda c: c.execute(select(incarnations.c.report)).scalars().all()[-1]))
    return report["restored"], [each["reservation_id"] for each in report["given_up"]]


@pytest.mark.parametrize("restoring", [True, False])
@pytest.mark.parametrize("has_noticed", [True, False])
async def test_what_a_server_remembers_that_learns_of_the_decision_late_is_restored_or_reported(
    opened: Database, tmp_path: Path, restoring: bool, has_noticed: bool
) -> None:
    gate = await sold(opened)
    watch = await watching(opened, gate, tmp_path)
    await opened.write(lose_the_latest_hold)
    await opened.write(partial(decide, restoring=restoring))
    if has_noticed:
        opened.guard.finding = "it lacks what was acknowledged"
    await watch.pass_once()
    assert await reported(opened) == ((["rsv_2"], []) if restoring else ([], ["rsv_2"]))
    await watch.pass_once()
    assert watch.finding is None
    assert await reported(opened) == ((["rsv_2"], []) if restoring else ([], ["rsv_2"])), "once"
    await gate.apply(SKU, [reserve("rsv_9", "bob")])
    (await read_ledger_snapshot(opened, SKU)).check()


async def refuse(*_: object, **__: object) -> None:
    raise Unavailable("it is full")


async def test_a_decision_is_applied_again_if_that_failed(
    opened: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = await watching(opened, await sold(opened), tmp_path)
    await opened.write(lose_the_latest_hold)
    await opened.write(partial(decide, restoring=True))
    with monkeypatch.context() as patch:
        patch.setattr(opened, "write", refuse)
        with pytest.raises(Unavailable):
            await watch.pass_once()
    await watch.pass_once()
    assert await reported(opened) == (["rsv_2"], [])


async def test_a_batch_that_was_under_way_when_a_person_decided_is_not_acknowledged(opened: Database) -> None:
    """Its commit may be among what was lost."""
    gate = await sold(opened)
    real = opened.write

    async def write(*given: Any, **options: Any) -> Any:
        answer = await real(*given, **options)
        opened.guard.recoveries += 1
        return answer

    opened.write = write  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown):
        await gate.apply(SKU, [Move(Transition.CANCEL, "rsv_2")])
    assert gate.acknowledged(1)[0].reservation.status is Status.ACTIVE
