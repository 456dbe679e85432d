"""Reads everything the ledger holds about one pool."""

from typing import Any

from sqlalchemy import Connection, Row, select

from holdfast.domain.stock.state import Event
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.batch_writes import KEY_STORED, POOL_CHANGED
from holdfast.ledger.tables.rows import pool_from_row, remembered_from_row, reservation_from_row
from holdfast.ledger.tables.stock import events, idempotency, pools, reservations
from holdfast.testing.snapshot import LedgerSnapshot

# What the ledger records beside the events of the gate.
_OF_THE_LEDGER = (POOL_CHANGED, KEY_STORED)


async def read_ledger_snapshot(database: Database, sku_id: str) -> LedgerSnapshot:
    return await database.read(lambda connection: _read(connection, sku_id))


def _read(connection: Connection, sku_id: str) -> LedgerSnapshot:
    def rows_of(table: Any, *order: Any) -> list[Row[Any]]:
        return list(connection.execute(select(table).where(table.c.sku_id == sku_id).order_by(*order)))

    pool = [pool_from_row(row) for row in rows_of(pools)]
    found = [reservation_from_row(row) for row in rows_of(reservations, reservations.c.reservation_id)]
    keys = rows_of(idempotency, idempotency.c.owner_id, idempotency.c.key)
    return LedgerSnapshot(
        sku_id,
        pool[0] if pool else None,
        {r.reservation_id: r for r in found},
        {(row.owner_id, row.key): remembered_from_row(row) for row in keys},
        [
            Event(e.type, e.at, e.reservation_id, e.quantity, e.expires_at)
            for e in rows_of(events, events.c.seq)
            if e.type not in _OF_THE_LEDGER
        ],
    )
