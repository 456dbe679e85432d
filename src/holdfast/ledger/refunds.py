"""Money that goes back: what is asked for, what is owed, and what was done.

Lock order: the pool's row (only where units are added to it), then the order's, then the refund's, then the wallet's.
"""

from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Row, Select, exists, func, insert, select, update

from holdfast.domain.sale import OrderStatus, PaymentKind, payment_key_of
from holdfast.ledger.sale_tables import is_open_refund, orders, payments, refunds
from holdfast.ledger.tables import events
from holdfast.ledger.wallet import SALES, add, lock_account

# Those whose money needs nobody else.
PAID_IN_LEDGER = (PaymentKind.WALLET, PaymentKind.EXTERNAL)


class RefundView(Struct, frozen=True):
    refund_id: str
    order_id: str | None
    amount: int
    currency: str
    restock_units: int
    state: str
    created_at: int
    done_at: int | None


class Wanted(Struct, frozen=True):
    order_id: str
    key: str
    amount: int | None = None
    restock: bool = False


class RefundProblem(Exception):
    """Why it is refused: a stable `reason`, and what would have been possible."""

    def __init__(self, reason: str, detail: str, left: int = 0) -> None:
        super().__init__(detail)
        self.reason, self.left = reason, left


def lock_order(connection: Connection, order_id: str) -> Row[Any] | None:
    return connection.execute(select(orders).where(orders.c.order_id == order_id).with_for_update()).one_or_none()


def enter(connection: Connection, refund_id: str, wanted: Wanted, now: int) -> RefundView:
    """Owe a refund, once per order and key. Never more than was paid, whatever is asked and how often."""
    order = lock_order(connection, wanted.order_id)
    if order is None:
        raise RefundProblem("order_not_found", "There is no order by this id.")
    first = connection.execute(
        select(refunds).where(refunds.c.order_id == wanted.order_id, refunds.c.key == wanted.key)
    ).one_or_none()
    if first is not None:
        return _same_again(first, wanted)
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
    }
    connection.execute(insert(refunds).values(**values))
    return find(connection, refund_id)


def _payment_key(connection: Connection, reservation_id: str) -> str:
    """Money that came too late for its own reservation may have paid for another."""
    query = select(payments.c.payment_key).where(payments.c.reservation_id == reservation_id)
    return connection.execute(query).scalar_one_or_none() or payment_key_of(reservation_id)


def _same_again(first: Row[Any], wanted: Wanted) -> RefundView:
    if (wanted.amount, wanted.restock) != (first.asked_amount, first.restock_units > 0):
        raise RefundProblem("idempotency_key_reused", "This key was used with another request.")
    return view(first)


def left_of(connection: Connection, order: Row[Any]) -> int:
    """What of an order that is locked is not owed back yet."""
    total = select(func.coalesce(func.sum(refunds.c.amount), 0)).where(_is_owed_for(order.order_id))
    return int(order.amount - connection.execute(total).scalar_one())


def _can_return_for_nothing(connection: Connection, order: Row[Any]) -> bool:
    """Whether an order was free, and stands. There is no money to tell whether it went back before."""
    if order.amount or order.status != OrderStatus.CONFIRMED:
        return False
    return not connection.execute(select(exists().where(_is_owed_for(order.order_id)))).scalar()


def _is_owed_for(order_id: str) -> ColumnElement[bool]:
    return (refunds.c.order_id == order_id) & (refunds.c.state != "dropped")


def find(connection: Connection, refund_id: str) -> RefundView:
    return view(connection.execute(select(refunds).where(refunds.c.refund_id == refund_id)).one())


def view(row: Row[Any]) -> RefundView:
    return RefundView(
        row.refund_id,
        row.order_id,
        row.amount,
        row.currency,
        row.restock_units,
        row.state,
        row.created_at,
        row.done_at,
    )


def payment_of(connection: Connection, refund: Row[Any]) -> Row[Any] | None:
    """The charge that is given back. None for an order that the settler did not take the money of."""
    return connection.execute(select(payments).where(payments.c.payment_key == refund.payment_key)).one_or_none()


def provider_of(connection: Connection, refund: Row[Any], payment: Row[Any] | None) -> PaymentKind:
    if refund.order_id is None:
        assert payment is not None, "money without an order is money of a payment"
        return PaymentKind(payment.provider)
    query = select(orders.c.payment).where(orders.c.order_id == refund.order_id)
    return PaymentKind(connection.execute(query).scalar_one())


def pay_to_wallet(connection: Connection, refund: Row[Any], payment: Row[Any], now: int) -> None:
    lock_account(connection, payment.buyer_id, refund.currency, now)
    money = (refund.amount, refund.currency, "refund", now, payment.reservation_id)
    add(connection, refund.refund_id, SALES, payment.buyer_id, *money)


def count_on_order(connection: Connection, refund: Row[Any], now: int) -> None:
    """The money has gone back: the order says so, and the world is told."""
    order = None if refund.order_id is None else lock_order(connection, refund.order_id)
    if order is None:
        _tell_without_order(connection, refund, now)
        return
    refunded = order.refunded_amount + refund.amount
    is_full = refunded >= order.amount and order.status == OrderStatus.CONFIRMED
    values = {"refunded_amount": refunded, "status": OrderStatus.REFUNDED.value if is_full else order.status}
    connection.execute(update(orders).where(orders.c.order_id == order.order_id).values(**values))
    about = {"sku_id": order.sku_id, "reservation_id": order.reservation_id, "subject": refund.refund_id}
    connection.execute(insert(events).values(type="order.refunded", at=now, quantity=order.quantity, **about))


def _tell_without_order(connection: Connection, refund: Row[Any], now: int) -> None:
    """The money of a reservation that ended before it came."""
    payment = payment_of(connection, refund)
    if payment is not None:
        about = {"sku_id": refund.sku_id, "reservation_id": payment.reservation_id, "subject": refund.refund_id}
        connection.execute(insert(events).values(type="order.refunded", at=now, **about))


# --- work


def _due(now: int) -> Select[Any]:
    return select(refunds.c.refund_id).where(is_open_refund, refunds.c.due_at <= now, refunds.c.leased_until <= now)


def is_any_due(connection: Connection, now: int) -> bool:
    return connection.execute(_due(now).limit(1)).scalar() is not None


def lease(connection: Connection, now: int, until: int, limit: int, only: str | None = None) -> list[Row[Any]]:
    query = _due(now)
    if only is not None:
        query = query.where(refunds.c.refund_id == only)
    wanted = query.order_by(refunds.c.due_at).limit(limit).with_for_update(skip_locked=True)
    ids = list(connection.execute(wanted).scalars())
    if not ids:
        return []
    taken = update(refunds).where(refunds.c.refund_id.in_(ids)).values(leased_until=until, fence=refunds.c.fence + 1)
    return list(connection.execute(taken.returning(*refunds.c)))


def store_if_leased(connection: Connection, refund: Row[Any], **values: object) -> bool:
    """Whether the lease was still ours, and the row was written."""
    is_ours = [refunds.c.refund_id == refund.refund_id, refunds.c.fence == refund.fence, is_open_refund]
    return connection.execute(update(refunds).where(*is_ours).values(**values)).rowcount == 1
