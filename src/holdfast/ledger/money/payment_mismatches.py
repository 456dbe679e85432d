"""Finds orders, payments and settlements that contradict each other, and writes the repairs.

Lock order as in `tables/sales.py`: settlements before payments.
"""

from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    delete,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from holdfast.domain.sale.sale import PAID_BY_PROVIDER
from holdfast.domain.sale.settling_case import AUTHENTICATION_REQUIRED, PaymentStatus
from holdfast.ledger.money.settle_batch import record_payment, record_settlement
from holdfast.ledger.tables.money import is_open_settlement, is_undecided, payments, refunds, settlements
from holdfast.ledger.tables.sales import is_sold, orders
from holdfast.ledger.tables.stock import reservations

FINDINGS_MAX = 100
# Deleted per short transaction.
NOTES_MAX = 500

_UNDER_WAY = ("waiting", "notifying", "parked")
_CLOSED = ("done", "dropped")
# States that a provider may contradict. NEW too: a search index at the provider may have missed a payment.
_DISPUTABLE = (PaymentStatus.DECLINED.value, PaymentStatus.VOIDED.value, PaymentStatus.NEW.value)
# A literal, so that the engines use the partial index.
_is_captured = payments.c.state == literal_column("'captured'")


def _is_worked_on() -> ColumnElement[bool]:
    """Whether the settlement of its reservation, or of the reservation it replaces, is in progress."""
    is_under_way = settlements.c.state.in_(_UNDER_WAY)
    return or_(
        exists().where(settlements.c.reservation_id == payments.c.reservation_id, is_under_way),
        exists().where(settlements.c.successor_id == payments.c.reservation_id, is_under_way),
    )


def captured_without_order(since: int) -> Select[Any]:
    """Captured payments without an order, a refund, or a settlement in progress."""
    has_order = exists().where(
        orders.c.reservation_id == payments.c.reservation_id, orders.c.payment == payments.c.provider, is_sold
    )
    refunded = (
        select(func.coalesce(func.sum(refunds.c.amount), 0))
        .where(refunds.c.payment_key == payments.c.payment_key, refunds.c.state != "dropped")
        .scalar_subquery()
    )
    is_unmatched = [~has_order, refunded < payments.c.amount, ~_is_worked_on()]
    return select(payments).where(_is_captured, payments.c.updated_at >= since, *is_unmatched).limit(FINDINGS_MAX)


def left_open() -> Select[Any]:
    return select(payments).where(is_undecided, ~_is_worked_on()).limit(FINDINGS_MAX)


def stuck(since: int) -> Select[Any]:
    is_asked = [payments.c.state == PaymentStatus.ATTEMPTED.value, payments.c.reason == AUTHENTICATION_REQUIRED]
    awaits_buyer = exists().where(payments.c.reservation_id == settlements.c.reservation_id, *is_asked)
    is_old = [is_open_settlement, settlements.c.created_at < since]
    return select(settlements).where(*is_old, ~awaits_buyer).limit(FINDINGS_MAX)


def settled_since(since: int, limit: int) -> Select[Any]:
    settled = (PaymentStatus.CAPTURED, PaymentStatus.DECLINED, PaymentStatus.VOIDED)
    query = select(payments).where(payments.c.updated_at > since, payments.c.state.in_(settled), payments.c.amount > 0)
    return query.order_by(payments.c.updated_at.desc()).limit(limit)


def providers_not_among(connection: Connection, known: Collection[str]) -> list[str]:
    """Providers, other than these, that have taken money or may have."""
    wanted = [kind.value for kind in PAID_BY_PROVIDER if kind.value not in known]
    asked = [payments.c.state != PaymentStatus.NEW.value, payments.c.amount > 0]
    found = {name: exists().where(payments.c.provider == name, *asked) for name in wanted}
    return [name for name, is_there in found.items() if connection.execute(select(is_there)).scalar()]


# --- repairs


def reopen_payment(connection: Connection, query: Select[Any], payment_key: str, now: int) -> bool | None:
    """Have the settler continue with this payment. Returns whether it can; None if nothing is wrong with it any
    more."""
    reservation_id = connection.execute(
        select(payments.c.reservation_id).where(payments.c.payment_key == payment_key)
    ).scalar_one_or_none()
    is_of_it = or_(settlements.c.reservation_id == reservation_id, settlements.c.successor_id == reservation_id)
    work = list(connection.execute(select(settlements).where(is_of_it).with_for_update()))
    payment = connection.execute(query.where(payments.c.payment_key == payment_key)).one_or_none()
    if payment is None or payment.reservation_id != reservation_id:
        return None
    if any(row.reservation_id == reservation_id for row in work):
        reopen(connection, payment.reservation_id, now)
        return True
    reserved = connection.execute(
        select(reservations).where(reservations.c.reservation_id == reservation_id)
    ).one_or_none()
    if reserved is not None:
        _open(connection, payment, reserved, now)
    elif work:
        _return_to(connection, payment, work[0].reservation_id, now)
    return reserved is not None or bool(work)


def reopen(connection: Connection, reservation_id: str, now: int) -> bool:
    values = {"state": "waiting", "ending": None, "successor_id": None, "attempts": 0, "due_at": now, "leased_until": 0}
    is_closed = [settlements.c.reservation_id == reservation_id, settlements.c.state.in_(_CLOSED)]
    reopened = update(settlements).where(*is_closed).values(**values, fence=settlements.c.fence + 1)
    is_reopened = connection.execute(reopened).rowcount == 1
    record_settlement(connection, reservation_id, now)
    return is_reopened


def reopen_if_disputable(connection: Connection, payment: Row[Any], now: int) -> bool:
    """Reopen the settlement if it was closed because the payment was declined, voided or not found."""
    return payment.state in _DISPUTABLE and reopen(connection, payment.reservation_id, now)


def look_up_again(connection: Connection, payment_key: str, now: int) -> None:
    """The provider may have a newer state: the settler looks the payment up before anything else."""
    disputed = update(payments).where(payments.c.payment_key == payment_key, payments.c.state.in_(_DISPUTABLE))
    connection.execute(disputed.values(state=PaymentStatus.ATTEMPTED.value, updated_at=now))
    record_payment(connection, payment_key, now)


def _open(connection: Connection, payment: Row[Any], reserved: Row[Any], now: int) -> None:
    """Needed if the reservation began and ended between two journal entries, so that it never had a settlement."""
    work = {
        "reservation_id": payment.reservation_id,
        "sale_id": payment.sale_id,
        "sku_id": reserved.sku_id,
        "buyer_id": reserved.owner_id,
        "quantity": reserved.quantity,
        "due_at": now,
        "created_at": now,
    }
    connection.execute(insert(settlements).values(**work))
    record_settlement(connection, payment.reservation_id, now)


def _return_to(connection: Connection, payment: Row[Any], reservation_id: str, now: int) -> None:
    """Used if the replacement that was to get the money does not exist."""
    reopen(connection, reservation_id, now)
    pointed = update(payments).where(payments.c.payment_key == payment.payment_key)
    connection.execute(pointed.values(reservation_id=reservation_id, updated_at=now))
    record_payment(connection, payment.payment_key, now)


def orphaned_notes(connection: Connection, before: int) -> list[str]:
    """Payment methods stored for purchases that were later refused or lost."""
    found = select(payments.c.payment_key).where(_is_orphaned_note(before)).limit(NOTES_MAX)
    return list(connection.execute(found).scalars())


def delete_notes(connection: Connection, keys: list[str], before: int) -> int:
    is_one = payments.c.payment_key.in_(keys)
    return connection.execute(delete(payments).where(is_one, _is_orphaned_note(before))).rowcount


def _is_orphaned_note(before: int) -> ColumnElement[bool]:
    is_reserved = exists().where(reservations.c.reservation_id == payments.c.reservation_id)
    return (payments.c.state == PaymentStatus.NEW.value) & (payments.c.updated_at < before) & ~is_reserved
