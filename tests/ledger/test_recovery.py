"""A person continues with a ledger that went back, however little is left of it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, delete, update

from holdfast.access.receipts import Receipts
from holdfast.bootstrap.marks import mark_stores, place_of
from holdfast.bootstrap.recovery import Missing, decide, find_missing
from holdfast.bootstrap.stores import open_engine, open_ledger
from holdfast.domain.stock.command import Provision
from holdfast.domain.stock.limits import MAX_HOLD_MS
from holdfast.domain.stock.reservation import Status, new_reservation_id
from holdfast.errors import SettingsError
from holdfast.gate.engine import Engine
from holdfast.ledger.engine.database import Database
from holdfast.ledger.mark.mark import begin_incarnation, read_incarnations
from holdfast.ledger.mark.watch import LedgerWatch
from holdfast.ledger.tables.incarnations import incarnations
from holdfast.ledger.tables.stock import events, pools, reservations
from holdfast.runtime.signing import parse_signing_keys
from holdfast.settings import Settings
from holdfast.testing.states import SKU, reserve
from ledger_snapshot import read_ledger_snapshot


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return Settings(database_url=database_url, data=tmp_path)


@asynccontextmanager
async def watching(settings: Settings, database: Database, engine: Engine) -> AsyncIterator[LedgerWatch]:
    """As a server does, a pass at a time."""
    stores = mark_stores(settings, engine)
    watch = LedgerWatch(database, place_of(settings), stores, settings.data, engine.acknowledged)
    await watch.start()
    yield watch
    await watch.stop()


async def recover(settings: Settings, *, deciding: bool = True) -> Missing:
    """As `holdfast recover` does, in a process of its own."""
    async with open_ledger(settings) as database, open_engine(settings, database) as engine:
        missing = await find_missing(settings, database, engine, None)
        if missing.findings and deciding:
            await decide(database, engine.evidence, missing, None, "ada", restoring=True)
        return missing


def lose_everything(connection: Connection) -> None:
    for table in (events, reservations, pools, incarnations):
        connection.execute(delete(table))


def lose_the_last_incarnation(connection: Connection) -> None:
    lose_everything(connection)
    begin_incarnation(connection, 1, 0, incarnation="before")


@pytest.mark.parametrize("lose", [lose_everything, lose_the_last_incarnation])
async def test_a_ledger_without_the_incarnation_that_was_seen_is_used_again(
    settings: Settings, lose: Callable[[Connection], None]
) -> None:
    async with open_ledger(settings) as database, open_engine(settings, database) as engine:
        async with watching(settings, database, engine) as watch:
            await engine.gate.apply(SKU, [Provision(10), reserve("rsv_1")])
            await watch.pass_once()
            await database.write(lose)
            await watch.pass_once()
            assert watch.finding is not None
            assert (await recover(settings)).findings
            await watch.pass_once()
            assert watch.finding is None
            await engine.gate.apply(SKU, [Provision(10)])
        assert (await recover(settings)).findings == [], "decided about, and found again"
        async with watching(settings, database, engine) as watch:
            assert watch.finding is None


async def test_a_server_that_starts_on_an_empty_database_serves_once_a_person_has_decided(settings: Settings) -> None:
    async with open_ledger(settings) as database, open_engine(settings, database) as engine:
        async with watching(settings, database, engine):
            await engine.gate.apply(SKU, [Provision(10), reserve("rsv_1")])
        await database.write(lose_everything)
        async with watching(settings, database, engine) as watch:
            assert watch.finding is not None
            await recover(settings)
            await watch.pass_once()
            assert watch.finding is None
        assert len(await database.read(read_incarnations)) == 2


def lose_the_hold(connection: Connection) -> None:
    connection.execute(delete(events).where(events.c.reservation_id.is_not(None)))
    for table in (reservations, incarnations):
        connection.execute(delete(table))
    connection.execute(update(pools).values(held=0, active_reservations=0))


async def test_a_hold_that_no_server_remembers_comes_back_by_its_receipt(settings: Settings, tmp_path: Path) -> None:
    ours, id_ = Receipts(parse_signing_keys(settings.signing_key_text())), new_reservation_id(SKU, "ada")
    async with open_ledger(settings) as database, open_engine(settings, database) as engine:
        async with watching(settings, database, engine):
            [_, verdict] = await engine.gate.apply(SKU, [Provision(10), reserve(id_, quantity=2)])
            granted = verdict.reservation
            assert granted is not None
        await database.write(lose_the_hold)
    over = replace(granted, reservation_id=f"{id_}-over", created_at=granted.created_at - MAX_HOLD_MS)
    file, foreign = tmp_path / "receipts.txt", tmp_path / "foreign.txt"
    file.write_text("\n".join([ours.sign(over), ours.sign(granted)]))
    foreign.write_text(Receipts(parse_signing_keys("f" * 32)).sign(granted))
    async with open_ledger(settings) as database, open_engine(settings, database) as engine:
        assert (await find_missing(settings, database, engine, None)).reservations == []
        with pytest.raises(SettingsError, match=r"foreign.txt: receipt 1 was not signed"):
            await find_missing(settings, database, engine, None, receipts=[foreign])
        missing = await find_missing(settings, database, engine, None, receipts=[file])
        assert (await decide(database, None, missing, None, "ada", restoring=True)).restored == [id_]
        found = await engine.find(id_)
        assert found is not None
        assert (found.owner_id, found.quantity, found.status) == (granted.owner_id, 2, Status.ACTIVE)
        assert found.expires_at <= granted.created_at + MAX_HOLD_MS
        (await read_ledger_snapshot(database, SKU)).check()
