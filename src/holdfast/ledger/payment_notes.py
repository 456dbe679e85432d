"""What a buyer wants to pay with, noted before anything is asked of a provider.

The amount of a note is what was asked for. What is charged is decided when the payment is attempted, from what was
granted.
"""

from sqlalchemy import Connection, delete
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.domain.sale import Sale, payment_key_of
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
