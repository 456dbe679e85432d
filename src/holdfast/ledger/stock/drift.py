"""Records that a pool was found inconsistent."""

from sqlalchemy import Connection, select

from holdfast.domain.stock.pool_time import pool_time
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.facts import record
from holdfast.ledger.tables.stock import pools


def record_drift(connection: Connection, database: Database, sku_id: str) -> None:
    """Under the lock of the pool, like all of its events."""
    row = connection.execute(select(pools.c.decided_at).where(pools.c.sku_id == sku_id).with_for_update()).one()
    at = pool_time(database.now_ms(connection), row.decided_at)
    record(connection, sku_id, "pool.drift", at, {})
