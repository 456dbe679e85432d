"""Refunds: requested, owed and paid.

Lock order: the pool's row (only where units are added to it), then the order's, then the refund's, then the wallet's.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Row, bindparam, exists, func, insert, select, update

from holdfast.domain.sale.sale import OrderStatus, PaymentKind, payment_key_of
from holdfast.ledger.engine.facts import record
from holdfast.ledger.money.wallet import SALES, Entries, add, lock_account
from holdfast.ledger.tables.money import is_open_refund, is_returned, payments, refunds
from holdfast.ledger.tables.sales import orders, sales

# Refunded without a provider call.
PAID_IN_LEDGER = (PaymentKind.WALLET, PaymentKind.EXTERNAL)
ENTERED, REFUNDED, RETURNED = "refund.entered", "order.refunded", "refund.units_returned"


class RefundView(Struct, frozen=True):
    refund_id: str
    order_id: str | None
    amount: int
    currency: str
    restock_units: int
    state: str
    created_at: int
    done_at: int | None
    note: str | None = None


class Wanted(Struct, frozen=True):
    order_id: str
    key: str
    amount: int | None = None
    restock: bool = False
    note: str | None = None


_STANDING = (OrderStatus.CONFIRMED.value, OrderStatus.FULFILLED.value)


class RefundProblem(Exception):
    """Why a refund is rejected: a stable `reason`, and the possible amount."""

    def __init__(self, reason: str, detail: str, left: int = 0) -> None:
        super().__init__(detail)
        self.reason, self.left = reason, left


def lock_order(connection: Connection, order_id: str) -> Row[Any] | None:
    return connection.execute(select(orders).where(orders.c.order_id == order_id).with_for_update()).one_or_none()


def enter(connection: Connection, refund_id: str, wanted: Wanted, now: int) -> RefundView:
    """Record a refund, once per order and key. All refunds of an order together never exceed the paid amount."""
    order = lock_order(connection, wanted.order_id)
    if order is None:
        raise RefundProblem("order_not_found", "There is no order by this id.")
    if order.confirmed_at is None:
        raise RefundProblem("order_not_paid", "Nothing was paid for this order.")
    first = connection.execute(
        select(refunds).where(refunds.c.order_id == wanted.order_id, refunds.c.key == wanted.key)
    ).one_or_none()
    if first is not None:
        return _repeated(first, wanted)
    left = left_of(connection, order)
    amount = left if wanted.amount is None else wanted.amount
    if amount > left or (amount == 0 and not _can_return_for_nothing(connection, order)):
        raise RefundProblem("refund_exceeds_order", f"{left} of {order.amount} can still be refunded.", left)
    if wanted.restock and amount < left:
        raise RefundProblem("restock_needs_full_refund", "Units return only with all of the money.", left)
    values = {
        "refund_id": refund_id,
        "payment_key": _payment_key(connection, order.reservation_id),
        "order_id": wanted.order_id,
        "key": wanted.key,
        "asked_amount": wanted.amount,
        "sku_id": order.sku_id,
        "amount": amount,
        "currency": order.currency,
        "restock_units": order.quantity if wanted.restock else 0,
        "cause": "requested",
        "due_at": now,
        "created_at": now,
        "note": wanted.note,
    }
    connection.execute(insert(refunds).values(**values))
    record(connection, order.sku_id, ENTERED, now, {"refunds": [values]}, subject=refund_id)
    return find(connection, refund_id)


def _payment_key(connection: Connection, reservation_id: str) -> str:
    """Money that came too late for its own reservation may have paid for a replacement. Money from another attempt that
    is being returned did not pay for the order."""
    of_it = select(payments.c.payment_key).where(payments.c.reservation_id == reservation_id)
    query = of_it.where(payments.c.state == "captured", ~is_returned).order_by(payments.c.attempt)
    return connection.execute(query).scalars().first() or payment_key_of(reservation_id)


def _repeated(first: Row[Any], wanted: Wanted) -> RefundView:
    if (wanted.amount, wanted.restock) != (first.asked_amount, first.restock_units > 0):
        raise RefundProblem("idempotency_key_reused", "This key was used with another request.")
    return view(first)


def left_of(connection: Connection, order: Row[Any]) -> int:
    """How much of a locked order can still be refunded."""
    total = select(func.coalesce(func.sum(refunds.c.amount), 0)).where(_is_owed_for(order.order_id))
    return int(order.amount - connection.execute(total).scalar_one())


def _can_return_for_nothing(connection: Connection, order: Row[Any]) -> bool:
    """Whether a free order stands and was not refunded yet. Its amount cannot tell."""
    if order.amount or order.status not in _STANDING:
        return False
    return not connection.execute(select(exists().where(_is_owed_for(order.order_id)))).scalar()


def _is_owed_for(order_id: str) -> ColumnElement[bool]:
    return (refunds.c.order_id == order_id) & (refunds.c.state != "dropped")


def find(connection: Connection, refund_id: str) -> RefundView:
    return view(connection.execute(select(refunds).where(refunds.c.refund_id == refund_id)).one())


def view(row: Row[Any]) -> RefundView:
    """The view for callers: until the gate has returned its units, a refund is still waiting."""
    values = {name: row._mapping[name] for name in RefundView.__struct_fields__}  # noqa: SLF001 - as documented
    return RefundView(**values | {"state": "waiting" if row.state == "notifying" else row.state})


def payment_of(connection: Connection, refund: Row[Any]) -> Row[Any] | None:
    """The charge to refund. None for an order that was paid externally."""
    return connection.execute(select(payments).where(payments.c.payment_key == refund.payment_key)).one_or_none()


def provider_of(connection: Connection, refund: Row[Any], payment: Row[Any] | None) -> PaymentKind:
    """The provider that took the money. For an order paid externally in a sale that is paid here, it is the sale's
    provider, so there must be a payment to refund."""
    if refund.order_id is None:
        assert payment is not None, "a refund without an order has a payment"
        return PaymentKind(payment.provider)
    kinds = select(orders.c.payment, sales.c.payment.label("of_sale"))
    query = kinds.join(sales, sales.c.sale_id == orders.c.sale_id).where(orders.c.order_id == refund.order_id)
    found = connection.execute(query).one()
    return PaymentKind(found.of_sale if found.payment == PaymentKind.EXTERNAL else found.payment)


def pay_to_wallet(connection: Connection, refund: Row[Any], payment: Row[Any], now: int) -> Entries:
    lock_account(connection, payment.buyer_id, refund.currency, now)
    money = (refund.amount, refund.currency, "refund", now, payment.reservation_id)
    return add(connection, refund.refund_id, SALES, payment.buyer_id, *money)


def count_on_order(connection: Connection, refund: Row[Any], state: str, entries: Entries, now: int) -> None:
    """The money is back: update the order and write the event, with the entries of the buyer's wallet."""
    done = {"refund_id": refund.refund_id, "done_at": now}
    # While the gate still has to be notified, the refund is not done.
    facts: dict[str, object] = {"refunds": [done | ({"state": state} if state == "done" else {})]}
    facts |= {"wallet_entries": entries} if entries else {}
    order = None if refund.order_id is None else lock_order(connection, refund.order_id)
    if order is None:
        _record_without_order(connection, refund, facts, now)
        return
    refunded = order.refunded_amount + refund.amount
    is_full = refunded >= order.amount and order.status in _STANDING
    status = OrderStatus.REFUNDED.value if is_full else order.status
    values = {"refunded_amount": refunded, "status": status, "updated_at": now}
    connection.execute(update(orders).where(orders.c.order_id == order.order_id).values(**values))
    about = {"reservation_id": order.reservation_id, "subject": refund.refund_id, "quantity": order.quantity}
    facts |= {"orders": [{"order_id": order.order_id, **values}]}
    record(connection, order.sku_id, REFUNDED, now, facts, **about)


def units_returned(connection: Connection, refund: Row[Any], now: int) -> None:
    """Where Redis is the gate, units return after the money."""
    if store_if_leased(connection, refund, state="done"):
        facts = {"refunds": [{"refund_id": refund.refund_id, "state": "done"}]}
        record(connection, refund.sku_id, RETURNED, now, facts, subject=refund.refund_id)


def _record_without_order(connection: Connection, refund: Row[Any], facts: Mapping[str, object], now: int) -> None:
    """Used for a reservation that ended before its payment arrived."""
    payment = payment_of(connection, refund)
    if payment is not None:
        about = {"reservation_id": payment.reservation_id, "subject": refund.refund_id}
        record(connection, refund.sku_id, REFUNDED, now, facts, **about)


# --- work


_DUE = select(refunds.c.refund_id).where(
    is_open_refund, refunds.c.due_at <= bindparam("now"), refunds.c.leased_until <= bindparam("now")
)
_ANY_DUE = _DUE.limit(1)


def is_any_due(connection: Connection, now: int) -> bool:
    return connection.execute(_ANY_DUE, {"now": now}).scalar() is not None


def lease(connection: Connection, now: int, until: int, limit: int, only: str | None = None) -> list[Row[Any]]:
    query = _DUE
    if only is not None:
        query = query.where(refunds.c.refund_id == only)
    wanted = query.order_by(refunds.c.due_at).limit(limit).with_for_update(skip_locked=True)
    ids = list(connection.execute(wanted, {"now": now}).scalars())
    if not ids:
        return []
    taken = update(refunds).where(refunds.c.refund_id.in_(ids)).values(leased_until=until, fence=refunds.c.fence + 1)
    return list(connection.execute(taken.returning(*refunds.c)))


def store_if_leased(connection: Connection, refund: Row[Any], **values: object) -> bool:
    """Whether the lease was still held, and the row was written."""
    is_ours = [refunds.c.refund_id == refund.refund_id, refunds.c.fence == refund.fence, is_open_refund]
    return connection.execute(update(refunds).where(*is_ours).values(**values)).rowcount == 1
