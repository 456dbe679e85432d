"""The events of reservations, as clients see them."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, select

from holdfast.domain.stock.event_type import EventType
from holdfast.domain.stock.state import Event
from holdfast.ledger.events.declined import declined_payment
from holdfast.ledger.tables.money import payments
from holdfast.ledger.tables.stock import events


def history(connection: Connection, reservation_id: str) -> list[Event]:
    query = select(events).where(events.c.reservation_id == reservation_id).order_by(events.c.seq)
    return public_events(connection, connection.execute(query).all())


def public_events(connection: Connection, rows: Sequence[Row[Any]]) -> list[Event]:
    """Reservation events as clients see them: a failed one, or a declined payment, has its reason."""
    failed = {row.reservation_id for row in rows if row.type == "reservation.failed"}
    query = select(payments.c.reservation_id, payments.c.reason).where(payments.c.reservation_id.in_(failed))
    in_order = query.order_by(payments.c.attempt)
    why = {row.reservation_id: row.reason for row in connection.execute(in_order)} if failed else {}
    return [
        Event(
            row.type,
            row.at,
            row.reservation_id,
            row.quantity,
            row.expires_at,
            _reason(row, why),
        )
        for row in rows
    ]


def _reason(row: Row[Any], why: Mapping[str, str | None]) -> str | None:
    if row.type == EventType.PAYMENT_DECLINED:
        payment = declined_payment(row.facts)
        return None if payment is None else payment.reason
    return why.get(row.reservation_id) if row.type == EventType.RESERVATION_FAILED else None
