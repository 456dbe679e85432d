"""Where orders, payments and the work on them do not fit together: the questions, and what is written to mend it.

Lock order as in `sale_tables.py`: settlements before payments.
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

from holdfast.domain.sale import PaymentKind
from holdfast.domain.settling import PaymentMark
from holdfast.ledger.sale_tables import (
    is_open_settlement,
    is_set_aside,
    orders,
    payments,
    refunds,
    settlements,
)
from holdfast.ledger.tables import reservations

FINDINGS_MAX = 100
# As many as are forgotten in one short transaction.
NOTES_MAX = 500

_UNDER_WAY = ("waiting", "telling", "parked")
_CLOSED = ("done", "dropped")
# What a provider may contradict. One that was never found may have been there: some find only what they have indexed.
_DOUBTFUL = (PaymentMark.DECLINED.value, PaymentMark.VOIDED.value, PaymentMark.NEW.value)
# Written out, so that the engines see that the partial index serves the question.
_is_captured = payments.c.state == literal_column("'captured'")


def _is_worked_on() -> ColumnElement[bool]:
    """By the work of its reservation, or of the one whose place that is to take."""
    is_under_way = settlements.c.state.in_(_UNDER_WAY)
    return or_(
        exists().where(settlements.c.reservation_id == payments.c.reservation_id, is_under_way),
        exists().where(settlements.c.successor_id == payments.c.reservation_id, is_under_way),
    )


def kept_for_nothing(since: int) -> Select[Any]:
    """Money that was taken, and neither became an order nor goes back, and nobody works on it."""
    has_order = exists().where(
        orders.c.reservation_id == payments.c.reservation_id, orders.c.payment == payments.c.provider
    )
    goes_back = (
        select(func.coalesce(func.sum(refunds.c.amount), 0))
        .where(refunds.c.payment_key == payments.c.payment_key, refunds.c.state != "dropped")
        .scalar_subquery()
    )
    is_kept = [~has_order, goes_back < payments.c.amount, ~_is_worked_on()]
    return select(payments).where(_is_captured, payments.c.updated_at >= since, *is_kept).limit(FINDINGS_MAX)


def set_aside_for_nothing() -> Select[Any]:
    return select(payments).where(is_set_aside, ~_is_worked_on()).limit(FINDINGS_MAX)


def stuck(since: int) -> Select[Any]:
    return select(settlements).where(is_open_settlement, settlements.c.created_at < since).limit(FINDINGS_MAX)


def settled_lately(since: int, limit: int) -> Select[Any]:
    settled = (PaymentMark.CAPTURED, PaymentMark.DECLINED, PaymentMark.VOIDED)
    query = select(payments).where(payments.c.updated_at > since, payments.c.state.in_(settled), payments.c.amount > 0)
    return query.order_by(payments.c.updated_at.desc()).limit(limit)


def providers_not_among(connection: Connection, known: Collection[str]) -> list[str]:
    """Those who have taken money, or may have, and are not among these."""
    wanted = [kind.value for kind in (PaymentKind.SANDBOX, PaymentKind.STRIPE) if kind.value not in known]
    asked = [payments.c.state != PaymentMark.NEW.value, payments.c.amount > 0]
    found = {name: exists().where(payments.c.provider == name, *asked) for name in wanted}
    return [name for name, is_there in found.items() if connection.execute(select(is_there)).scalar()]


# --- mending


def take_up(connection: Connection, question: Select[Any], payment_key: str, now: int) -> bool | None:
    """Have the settler look again at what this payment is for, if that can be said. None: it is in order by now."""
    reservation_id = connection.execute(
        select(payments.c.reservation_id).where(payments.c.payment_key == payment_key)
    ).scalar_one_or_none()
    is_of_it = or_(settlements.c.reservation_id == reservation_id, settlements.c.successor_id == reservation_id)
    work = list(connection.execute(select(settlements).where(is_of_it).with_for_update()))
    payment = connection.execute(question.where(payments.c.payment_key == payment_key)).one_or_none()
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
        _point_back(connection, payment, work[0].reservation_id, now)
    return reserved is not None or bool(work)


def reopen(connection: Connection, reservation_id: str, now: int) -> bool:
    values = {"state": "waiting", "ending": None, "successor_id": None, "attempts": 0, "due_at": now, "leased_until": 0}
    is_closed = [settlements.c.reservation_id == reservation_id, settlements.c.state.in_(_CLOSED)]
    reopened = update(settlements).where(*is_closed).values(**values, fence=settlements.c.fence + 1)
    return connection.execute(reopened).rowcount == 1


def reopen_if_doubtful(connection: Connection, payment: Row[Any], now: int) -> bool:
    """Whether it was refused, let go or never found, and the work on it was closed with that."""
    return payment.state in _DOUBTFUL and reopen(connection, payment.reservation_id, now)


def doubt(connection: Connection, payment_key: str, now: int) -> None:
    """The provider may know better: it is looked up before anything else."""
    doubted = update(payments).where(payments.c.payment_key == payment_key, payments.c.state.in_(_DOUBTFUL))
    connection.execute(doubted.values(state=PaymentMark.ATTEMPTED.value, updated_at=now))


def _open(connection: Connection, payment: Row[Any], reserved: Row[Any], now: int) -> None:
    """It began and ended between two looks of the ledger, so nobody was ever to settle it."""
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


def _point_back(connection: Connection, payment: Row[Any], reservation_id: str, now: int) -> None:
    """The reservation that was to have the money does not exist."""
    reopen(connection, reservation_id, now)
    pointed = update(payments).where(payments.c.payment_key == payment.payment_key)
    connection.execute(pointed.values(reservation_id=reservation_id, updated_at=now))


def notes_for_nothing(connection: Connection, before: int) -> list[str]:
    """Methods that were noted for purchases which were then refused, or lost on the way."""
    found = select(payments.c.payment_key).where(_is_note_for_nothing(before)).limit(NOTES_MAX)
    return list(connection.execute(found).scalars())


def forget_notes(connection: Connection, keys: list[str], before: int) -> int:
    is_one = payments.c.payment_key.in_(keys)
    return connection.execute(delete(payments).where(is_one, _is_note_for_nothing(before))).rowcount


def _is_note_for_nothing(before: int) -> ColumnElement[bool]:
    is_reserved = exists().where(reservations.c.reservation_id == payments.c.reservation_id)
    return (payments.c.state == PaymentMark.NEW.value) & (payments.c.updated_at < before) & ~is_reserved
