"""The events of reservations, as clients see them."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, select

from holdfast.domain.stock.state import Event
from holdfast.ledger.tables.money import payments
from holdfast.ledger.tables.stock import events


def history(connection: Connection, reservation_id: str) -> list[Event]:
    query = select(events).where(events.c.reservation_id == reservation_id).order_by(events.c.seq)
    return public_events(connection, connection.execute(query).all())


def public_events(connection: Connection, rows: Sequence[Row[Any]]) -> list[Event]:
    """Reservation events as clients see them: a failed one has the reason of its payment."""
    failed = {row.reservation_id for row in rows if row.type == "reservation.failed"}
    query = select(payments.c.reservation_id, payments.c.reason).where(payments.c.reservation_id.in_(failed))
    why = {row.reservation_id: row.reason for row in connection.execute(query)} if failed else {}
    return [
        Event(
            row.type,
            row.at,
            row.reservation_id,
            row.quantity,
            row.expires_at,
            why.get(row.reservation_id) if row.type == "reservation.failed" else None,
        )
        for row in rows
    ]
