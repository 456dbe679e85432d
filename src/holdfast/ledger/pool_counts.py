"""Sums of what was counted per pool (holdfast/counting.py), shared by all processes."""

from collections.abc import Mapping

from sqlalchemy import BigInteger, Column, Connection, String, Table, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.ledger.tables import Id, metadata

pool_counts = Table(
    "pool_counts",
    metadata,
    Column("sku_id", Id, primary_key=True),
    Column("name", String, primary_key=True),
    Column("number", BigInteger, nullable=False),
)


def add_counts(connection: Connection, counts: Mapping[tuple[str, str], int]) -> None:
    insert = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    statement = insert(pool_counts)
    added = statement.on_conflict_do_update(
        index_elements=["sku_id", "name"], set_={"number": pool_counts.c.number + statement.excluded.number}
    )
    # In one order for all, so that two processes never wait for each other.
    rows = [{"sku_id": sku_id, "name": name, "number": counts[sku_id, name]} for sku_id, name in sorted(counts)]
    connection.execute(added, rows)


def counts_of(connection: Connection, sku_id: str) -> dict[str, int]:
    found = connection.execute(select(pool_counts.c.name, pool_counts.c.number).where(pool_counts.c.sku_id == sku_id))
    return {row.name: row.number for row in found}
