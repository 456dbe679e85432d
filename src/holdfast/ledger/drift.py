"""Telling that a pool was found at odds with itself."""

from sqlalchemy import Connection, insert, select

from holdfast.ledger.database import Database
from holdfast.ledger.tables import events, pools


def record_drift(connection: Connection, database: Database, sku_id: str) -> None:
    """Under the lock of the pool, as every event of it is written."""
    row = connection.execute(select(pools.c.decided_at).where(pools.c.sku_id == sku_id).with_for_update()).one()
    at = max(database.now_ms(connection), row.decided_at)
    connection.execute(insert(events).values(sku_id=sku_id, type="pool.drift", at=at))
