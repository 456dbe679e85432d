"""The SQL gate, on SQLite and on PostgreSQL, under the conformance suite and behind its last line of defence."""

import sqlite3

import pytest
from gate_harness import sql_harness
from sqlalchemy import Connection, insert, text, update
from sqlalchemy.exc import IntegrityError

from holdfast.domain.stock.command import Provision
from holdfast.ledger.engine.database import Database
from holdfast.ledger.tables.stock import idempotency, pools, reservations
from holdfast.testing.conformance import GateConformance, cancel
from holdfast.testing.harness import GateHarness
from holdfast.testing.states import NOW, SKU, reserve

VIOLATIONS = (IntegrityError, sqlite3.IntegrityError)


@pytest.fixture
def harness(database: Database) -> GateHarness:
    return sql_harness(database)


class TestSqlGate(GateConformance):
    pass


@pytest.mark.parametrize(
    "statement",
    [
        update(pools).values(held=-1),
        update(pools).values(sold=-1),
        update(pools).values(held=5, sold=1),
        update(pools).values(total=0),
        update(pools).values(active_reservations=-1),
        update(reservations).values(quantity=0),
        update(reservations).values(status="stolen"),
        update(reservations).values(owner_id=None),
        insert(reservations).values(("a", SKU, "eve", 1, "active", NOW, NOW, False)),
        insert(idempotency).values((SKU, "ada", "k", "f", "b", 1, NOW, NOW)),
    ],
)
async def test_the_tables_refuse_what_must_not_be(harness: GateHarness, database: Database, statement: object) -> None:
    await harness.apply(Provision(5), reserve("a", key="k"))
    with pytest.raises(VIOLATIONS):
        await database.write(lambda connection: connection.execute(statement))  # type: ignore[call-overload]
    (await harness.snapshot()).check()


async def test_a_batch_that_meets_the_last_wall_is_undone_whole(harness: GateHarness, database: Database) -> None:
    await harness.apply(Provision(5), reserve("a", quantity=2))
    await database.write(lambda connection: connection.execute(update(pools).values(held=1)))
    before = await harness.snapshot()
    with pytest.raises(VIOLATIONS):
        await harness.gate.apply(SKU, [reserve("b", key="k"), cancel("b"), cancel("a")])
    assert await harness.snapshot() == before


async def test_a_gate_goes_on_after_a_batch_that_was_undone(harness: GateHarness) -> None:
    await harness.apply(Provision(5), reserve("a"))
    with pytest.raises(VIOLATIONS):
        await harness.gate.apply(SKU, [reserve("a", key="k")])
    await harness.granted(reserve("b", key="k"))


async def test_the_clock_is_the_databases_where_it_has_one(database: Database) -> None:
    def both(connection: Connection) -> tuple[int, int]:
        theirs = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)"
        sqlite = "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS integer)"
        query = theirs if database.dialect_name == "postgresql" else sqlite
        return database.now_ms(connection), connection.execute(text(query)).scalar_one()

    ours, theirs = await database.read(both)
    assert abs(ours - theirs) < 1_000
