"""The books of one pool: everything that is kept about it, and the laws that hold in any books whatever happened."""

from collections import defaultdict
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, select

from holdfast.domain.pool import Pool
from holdfast.domain.reservation import Reservation, Status
from holdfast.domain.state import Event, Remembered
from holdfast.ledger.batch import pool_from_row, reservation_from_row
from holdfast.ledger.database import Database
from holdfast.ledger.tables import events, idempotency, pools, reservations
from worlds import pool_of

ENDS = {"reservation.confirmed", "reservation.failed", "reservation.cancelled", "reservation.expired"}
RETURNS = ENDS - {"reservation.confirmed"}


class Books(Struct):
    sku_id: str
    pool: Pool | None
    reservations: dict[str, Reservation]
    remembered: dict[tuple[str, str], Remembered]
    events: list[Event]

    def check(self) -> None:
        """Raise if any law is broken."""
        if self.pool is None:
            assert not self.reservations
            assert not self.events
            return
        assert min(self.pool.held, self.pool.sold, self.pool.available) >= 0
        rules, ready = self.pool.rules, self.pool.ready
        assert self.pool == pool_of(self.sku_id, self.pool.total, self.reservations.values(), rules, ready=ready)
        assert replay(self.events) == (self.pool.total, self.pool.held, self.pool.sold)
        self._check_histories()
        for first in self.remembered.values():
            assert self.reservations[first.reservation.reservation_id].owner_id == first.owner_id
        moments = [event.at for event in self.events]
        assert moments == sorted(moments), "time ran backwards"

    def _check_histories(self) -> None:
        histories: dict[str, list[str]] = defaultdict(list)
        for event in self.events:
            if event.reservation_id is not None:
                histories[event.reservation_id].append(event.type)
        assert histories.keys() == self.reservations.keys()
        for reservation_id, types in histories.items():
            _check_history(self.reservations[reservation_id], types)

    def sorted_events(self) -> list[Event]:
        """Overdue holds of one owner end at one moment in no promised order."""
        return sorted(self.events, key=lambda e: (e.at, e.type, e.reservation_id or "", e.quantity or 0))


def _check_history(reservation: Reservation, types: list[str]) -> None:
    assert types[0] == "reservation.created"
    assert types.count("reservation.created") == 1
    assert types.count("reservation.settling") <= 1
    ends = [t for t in types if t in ENDS]
    assert len(ends) <= 1, f"{reservation.reservation_id} ended more than once: {types}"
    if ends:
        assert types[-1] == ends[0] == f"reservation.{reservation.status}"
    else:
        assert reservation.status in {Status.ACTIVE, Status.SETTLING}


def replay(events: list[Event]) -> tuple[int, int, int]:
    """Total, held and sold, from nothing but what was recorded."""
    total = held = sold = 0
    for event in events:
        quantity = event.quantity or 0
        if event.type in {"pool.provisioned", "pool.restocked", "pool.given", "pool.taken"}:
            total += quantity
        elif event.type == "reservation.created":
            held += quantity
        elif event.type in RETURNS:
            held -= quantity
        elif event.type == "reservation.confirmed":
            held, sold = held - quantity, sold + quantity
        assert min(held, sold, total - held - sold) >= 0
    return total, held, sold


async def read_books(database: Database, sku_id: str) -> Books:
    return await database.read(lambda connection: _read(connection, sku_id))


def _read(connection: Connection, sku_id: str) -> Books:
    def rows_of(table: Any, *order: Any) -> list[Row[Any]]:
        return list(connection.execute(select(table).where(table.c.sku_id == sku_id).order_by(*order)))

    pool = [pool_from_row(row) for row in rows_of(pools)]
    found = [reservation_from_row(row) for row in rows_of(reservations, reservations.c.reservation_id)]
    return Books(
        sku_id,
        pool[0] if pool else None,
        {r.reservation_id: r for r in found},
        {(row.owner_id, row.key): _first_answer(row) for row in rows_of(idempotency)},
        [Event(e.type, e.at, e.reservation_id, e.quantity, e.expires_at) for e in rows_of(events, events.c.seq)],
    )


def _first_answer(row: Row[Any]) -> Remembered:
    given = (row.reservation_id, row.sku_id, row.owner_id, row.quantity, Status.ACTIVE, row.created_at, row.expires_at)
    return Remembered(row.owner_id, row.key, row.fingerprint, Reservation(*given))
