"""What a buyer wants to pay with, noted before anything is asked of a provider.

The amount of a note is what was asked for. What is charged is decided when the payment is attempted, from what was
granted.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.domain.sale import Sale, payment_key_of
from holdfast.domain.state import Event
from holdfast.ledger.sale_tables import payments


def note_method(
    connection: Connection, sale: Sale, reservation_id: str, buyer_id: str, quantity: int, method: str, now: int
) -> None:
    """A later note replaces an earlier one, until the payment is under way."""
    insert = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    noted = insert(payments).values(
        payment_key=payment_key_of(reservation_id),
        reservation_id=reservation_id,
        sale_id=sale.sale_id,
        buyer_id=buyer_id,
        provider=sale.payment,
        method=method,
        amount=sale.amount_of(quantity),
        currency=sale.currency,
        state="new",
        created_at=now,
        updated_at=now,
    )
    connection.execute(
        noted.on_conflict_do_update(
            index_elements=[payments.c.payment_key],
            set_={"method": noted.excluded.method, "updated_at": noted.excluded.updated_at},
            where=payments.c.state == "new",
        )
    )


def forget_method(connection: Connection, reservation_id: str) -> None:
    """The reservation it was for was never made."""
    noted = (payments.c.payment_key == payment_key_of(reservation_id), payments.c.state == "new")
    connection.execute(delete(payments).where(*noted))


def told_events(connection: Connection, rows: Sequence[Row[Any]]) -> list[Event]:
    """Events of reservations as they are told: one that failed says why there was no money."""
    failed = {row.reservation_id for row in rows if row.type == "reservation.failed"}
    asked = select(payments.c.reservation_id, payments.c.reason).where(payments.c.reservation_id.in_(failed))
    why = {row.reservation_id: row.reason for row in connection.execute(asked)} if failed else {}
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


def why_declined(connection: Connection, reservation_id: str) -> str | None:
    """Why there was no money for a reservation."""
    declined = select(payments.c.reason).where(payments.c.reservation_id == reservation_id)
    reason: str | None = connection.execute(declined).scalar()
    return reason
