"""What owners have is found by owner, whatever PostgreSQL believes about the pool."""

import json
from typing import Any

import pytest
from sqlalchemy import Connection, Select, text
from sqlalchemy.dialects import postgresql

from holdfast.domain.stock.command import Provision
from holdfast.domain.stock.pool import Rules
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.batch import BatchQueries
from holdfast.ledger.stock.without_transaction.single_statement_grant import SingleStatementGrant, _parameters
from holdfast.testing.states import reserve


async def fill(database: Database, sku_id: str) -> None:
    attempts = [reserve(f"{sku_id} {n}", f"owner {n}") for n in range(1_000)]
    await SqlGate(database).apply(sku_id, [Provision(1_000, Rules(per_owner_limit=2)), *attempts])


STATEMENTS = {
    "tallies": BatchQueries("postgresql")._tallies.statement,
    "due": BatchQueries("postgresql")._due_of_owners.statement,
    "at once": SingleStatementGrant()._statement.statement,
}


@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
async def test_in_a_pool_that_is_newer_than_the_statistics(migrated_postgres: Database, statement: Select[Any]) -> None:
    await fill(migrated_postgres, "before")
    await migrated_postgres.write(lambda c: c.execute(text("ANALYZE")))
    await fill(migrated_postgres, "after")

    def plan(connection: Connection) -> str:
        rows = json.dumps([["owner 1"], ["owner 2"]])
        values = {"sku_id": "after", "rows": rows, "now": 0} | dict(_parameters("after", [reserve()], 0, 2_000))
        known = {key: value for key, value in values.items() if key in statement.compile().params}
        dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
        told = statement.params(**known).compile(dialect=dialect, compile_kwargs={"literal_binds": True})
        return "\n".join(row[0] for row in connection.exec_driver_sql(f"EXPLAIN {told}"))

    found = await migrated_postgres.read(plan)
    assert "reservations_counted_by_owner" in found
    assert "reservations_by_sku" not in found
