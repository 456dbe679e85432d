"""Which pools have holds that are due, however many reservations there are and whatever the statistics say."""

from sqlalchemy import Connection, text
from sqlalchemy.dialects import postgresql

from holdfast.domain.stock.command import Command, Provision
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.queries import PoolQueries
from holdfast.testing.states import MINUTE, NOW, SKU, reserve
from set_clock import SetClock

HOLDS = 3_000


async def fill(database: Database) -> None:
    gate = SqlGate(SetClock(database))
    holds: list[Command] = [reserve(f"r{n:04}", ttl_ms=MINUTE + n) for n in range(HOLDS)]
    await gate.apply(SKU, [Provision(HOLDS), *holds])
    await gate.apply("quiet", [Provision(1)])


async def test_a_pool_is_due_from_its_earliest_deadline_on(database: Database) -> None:
    await fill(database)
    queries = PoolQueries(database.dialect_name)
    assert await database.read(lambda c: queries.due_pools(c, NOW + MINUTE - 1)) == []
    assert await database.read(lambda c: queries.due_pools(c, NOW + MINUTE)) == [(SKU, NOW + MINUTE)]


async def test_postgres_finds_them_by_index_even_if_it_believes_that_everything_is_due(
    migrated_postgres: Database,
) -> None:
    await fill(migrated_postgres)

    def plan(connection: Connection) -> str:
        connection.execute(text("ANALYZE"))
        statement = PoolQueries("postgresql")._due_pools.params(now=NOW + 2 * MINUTE)
        dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
        told = statement.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
        return "\n".join(row[0] for row in connection.exec_driver_sql(f"EXPLAIN {told}"))

    found = await migrated_postgres.write(plan)
    assert "reservations_active_by_deadline" in found
    assert "Seq Scan on reservations" not in found
