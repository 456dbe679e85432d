"""Counters per pool (`runtime/counters.py`), summed over all processes."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Table, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.domain.stock.shards import whole_of
from holdfast.domain.stock.state import Event
from holdfast.ledger.tables.stock import pool_counts
from holdfast.runtime import counters

_RETURNS = {f"reservation.{why}": f"{counters.RETURNED}{why}" for why in ("expired", "cancelled", "failed")}


def insert_for(connection: Connection) -> Callable[[Table], Any]:
    """The dialect's insert, which has `on_conflict_do_update`."""
    return sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert


def add_counts(connection: Connection, counts: Mapping[tuple[str, str], int]) -> None:
    statement = insert_for(connection)(pool_counts)
    added = statement.on_conflict_do_update(
        index_elements=["sku_id", "name"], set_={"number": pool_counts.c.number + statement.excluded.number}
    )
    # In a fixed order, so that two processes cannot deadlock.
    rows = [{"sku_id": sku_id, "name": name, "number": counts[sku_id, name]} for sku_id, name in sorted(counts)]
    connection.execute(added, rows)


def counts_of(connection: Connection, sku_id: str) -> dict[str, int]:
    found = connection.execute(select(pool_counts.c.name, pool_counts.c.number).where(pool_counts.c.sku_id == sku_id))
    return {row.name: row.number for row in found}


def count_returns(sku_id: str, events: Iterable[Event]) -> None:
    """Count units returned to a pool, by reason; those of a shard count for the whole pool."""
    returned: defaultdict[str, int] = defaultdict(int)
    for event in events:
        if event.type in _RETURNS:
            returned[_RETURNS[event.type]] += event.quantity or 0
    for name, units in returned.items():
        counters.count(whole_of(sku_id), name, units)
