"""The method a buyer wants to pay with, stored before the provider is called.

A note has the requested amount. The charge is for the granted units, and is decided when payment is attempted.
"""

from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, bindparam, delete, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.domain.sale.sale import PaymentKind, Sale, payment_key_of
from holdfast.ledger.mark.mark import mark_of, write_mark
from holdfast.ledger.tables.money import payments
from holdfast.ledger.tables.stock import idempotency


class Method(Struct, frozen=True):
    """The provider's names for a card and, if it is a saved one, for the customer it belongs to.

    The buyer chooses the card. The customer comes from the buyer's signed token: if the buyer could name it, they could
    charge anybody's card.
    """

    id: str
    customer: str | None = None


class Purchase(Struct, frozen=True):
    """The idempotency key and fingerprint that a reservation was made with, and the mark of its latest event."""

    key: str | None = None
    fingerprint: str | None = None
    ledger_mark: str | None = None


NO_PURCHASE = Purchase()


def purchase_of(connection: Connection, sku_id: str, buyer_id: str, reservation_id: str) -> Purchase:
    """Looked up by a prefix of the primary key: a buyer has few keys in a pool."""
    theirs = (idempotency.c.sku_id == sku_id, idempotency.c.owner_id == buyer_id)
    query = select(idempotency.c.key, idempotency.c.fingerprint).where(*theirs)
    row = connection.execute(query.where(idempotency.c.reservation_id == reservation_id)).first()
    mark = mark_of(connection, reservation_id)
    written = None if mark is None else write_mark(mark)
    # Our own keys contain unprintable characters, and no buyer repeats them.
    if row is None or not row.key.isprintable():
        return Purchase(ledger_mark=written)
    return Purchase(row.key, row.fingerprint, written)


def note_method(
    connection: Connection,
    sale: Sale,
    reservation_id: str,
    buyer_id: str,
    quantity: int,
    method: Method,
    now: int,
    attempt: int = 1,
) -> None:
    """A later note replaces an earlier one until the payment starts."""
    noted = {
        "payment_key": payment_key_of(reservation_id, attempt),
        "attempt": attempt,
        "reservation_id": reservation_id,
        "sale_id": sale.sale_id,
        "buyer_id": buyer_id,
        "provider": sale.payment,
        "method": method.id,
        "customer": method.customer if sale.payment is PaymentKind.STRIPE else None,
        "amount": sale.amount_of(quantity),
        "currency": sale.currency,
        "state": "new",
        "created_at": now,
        "updated_at": now,
    }
    connection.execute(_NOTE[connection.dialect.name], noted)


def _note(insert: Any) -> Any:
    noted = insert(payments)
    replaced = {name: noted.excluded[name] for name in ("method", "customer", "updated_at")}
    return noted.on_conflict_do_update(
        index_elements=[payments.c.payment_key], set_=replaced, where=payments.c.state == "new"
    )


_NOTE = {"sqlite": _note(sqlite_insert), "postgresql": _note(postgresql_insert)}


def forget_method(connection: Connection, reservation_id: str) -> None:
    """Called if the reservation was never made."""
    connection.execute(_FORGET, {"key": payment_key_of(reservation_id)})


_FORGET = delete(payments).where(payments.c.payment_key == bindparam("key"), payments.c.state == "new")


class Decline(Struct, frozen=True):
    reason: str | None
    at: int
    # The card that was declined, if the buyer named one.
    method: str | None = None


def last_decline(connection: Connection, reservation_id: str) -> Decline | None:
    """The last payment of a reservation that was declined or voided."""
    refused = [payments.c.reservation_id == reservation_id, payments.c.state.in_(("declined", "voided"))]
    query = select(payments.c.reason, payments.c.updated_at, payments.c.method).where(*refused)
    row = connection.execute(query.order_by(payments.c.attempt.desc()).limit(1)).one_or_none()
    return None if row is None else Decline(*row)
