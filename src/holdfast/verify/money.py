"""I3 and I4: at most one charge per reservation, and each of them ends as an order or a refund."""

from sqlalchemy import and_, case, exists, func, or_, select

from holdfast.domain.sale import OrderStatus, PaymentKind
from holdfast.ledger.sale_tables import orders, payments, refunds
from holdfast.verify.check import Check, Level
from holdfast.verify.under_way import UNDER_WAY, is_being_settled

_is_captured = payments.c.state == "captured"
_asked = ("attempted", "authorised", "claimed")

_charged_once = Check(
    "charged_once",
    "Nobody was charged twice for one reservation.",
    payments,
    select(payments.c.reservation_id, func.count().label("charges"), func.sum(payments.c.amount).label("amount"))
    .where(payments.c.state.in_((*_asked, "captured")))
    .group_by(payments.c.reservation_id)
    .having(func.count() > 1),
)

_paid = exists().where(
    payments.c.reservation_id == orders.c.reservation_id,
    _is_captured,
    payments.c.amount == orders.c.amount,
    payments.c.currency == orders.c.currency,
    payments.c.provider == orders.c.payment,
    payments.c.buyer_id == orders.c.buyer_id,
)
_is_ours = and_(orders.c.payment != PaymentKind.EXTERNAL, orders.c.amount > 0)
_orders_paid = Check(
    "orders_paid",
    "Every order of a sale with a provider has its captured payment, over the same amount.",
    orders,
    select(orders.c.order_id, orders.c.reservation_id, orders.c.amount, orders.c.payment).where(_is_ours, ~_paid),
)

_given_back = (
    select(
        refunds.c.payment_key,
        refunds.c.currency,
        func.max(refunds.c.order_id).label("order_id"),
        func.sum(refunds.c.amount).label("amount"),
        func.sum(case((refunds.c.state.in_(UNDER_WAY), 1), else_=0)).label("under_way"),
    )
    .where(refunds.c.state != "dropped")
    .group_by(refunds.c.payment_key, refunds.c.currency)
    .subquery("given_back")
)
_covered = func.coalesce(_given_back.c.amount, 0) >= payments.c.amount
_has_order = exists().where(
    orders.c.reservation_id == payments.c.reservation_id, orders.c.payment != PaymentKind.EXTERNAL
)
_without_order = (
    select(payments.c.payment_key, payments.c.reservation_id, payments.c.provider, payments.c.amount)
    .outerjoin(
        _given_back,
        and_(_given_back.c.payment_key == payments.c.payment_key, _given_back.c.currency == payments.c.currency),
    )
    .where(_is_captured, payments.c.amount > 0, ~_has_order)
)
_charges_end = Check(
    "charges_end",
    "Every charge is an order, is given back whole, or is still being worked on.",
    payments,
    _without_order.where(~_covered, ~is_being_settled(payments.c.reservation_id)),
)
_charges_open = Check(
    "charges_open",
    "Charges without an order yet, or not given back yet: somebody works on them.",
    payments,
    _without_order.where(
        or_(and_(~_covered, is_being_settled(payments.c.reservation_id)), and_(_covered, _given_back.c.under_way > 0))
    ),
    Level.OPEN,
)

_resolved = Check(
    "payments_resolved",
    "No payment was left without an answer: each one that was asked for is being worked on until it is known.",
    payments,
    select(payments.c.payment_key, payments.c.reservation_id, payments.c.state).where(
        payments.c.state.in_(_asked), ~is_being_settled(payments.c.reservation_id)
    ),
)

# Of an order that was paid elsewhere there is no payment here: then its amount is what can be given back.
_refundable = func.coalesce(
    case((_is_captured, payments.c.amount), else_=None),
    case((orders.c.payment == PaymentKind.EXTERNAL, orders.c.amount), else_=None),
    0,
)
_within_payment = Check(
    "refunds_within_payment",
    "No more was given back than was taken.",
    refunds,
    select(_given_back.c.payment_key, _given_back.c.amount.label("given_back"), _refundable.label("taken"))
    .outerjoin(
        payments,
        and_(payments.c.payment_key == _given_back.c.payment_key, payments.c.currency == _given_back.c.currency),
    )
    .outerjoin(orders, orders.c.order_id == _given_back.c.order_id)
    .where(_given_back.c.amount > _refundable),
)

_of_order = (
    select(
        refunds.c.order_id,
        func.sum(case((refunds.c.state == "done", refunds.c.amount), else_=0)).label("done"),
        func.sum(case((refunds.c.state.in_(UNDER_WAY), refunds.c.amount), else_=0)).label("under_way"),
    )
    .where(refunds.c.order_id.is_not(None))
    .group_by(refunds.c.order_id)
    .subquery("of_order")
)
_done, _under_way = func.coalesce(_of_order.c.done, 0), func.coalesce(_of_order.c.under_way, 0)
_with_refunds = orders.outerjoin(_of_order, _of_order.c.order_id == orders.c.order_id)
_count_refunds = Check(
    "orders_count_refunds",
    "What every order counts as refunded is what was given back; what is under way may be counted or not.",
    orders,
    select(orders.c.order_id, orders.c.refunded_amount, _done.label("done"), _under_way.label("under_way"))
    .select_from(_with_refunds)
    .where(or_(orders.c.refunded_amount < _done, orders.c.refunded_amount > _done + _under_way)),
)

_called_off = orders.c.status.in_((OrderStatus.REFUNDED, OrderStatus.CANCELLED))
_whole = Check(
    "orders_refunded_whole",
    "Orders that are cancelled or refunded got all of their money back, and the others did not.",
    orders,
    select(orders.c.order_id, orders.c.status, orders.c.amount, orders.c.refunded_amount)
    .select_from(_with_refunds)
    .where(
        _is_ours,
        or_(
            and_(_called_off, _done + _under_way < orders.c.amount),
            and_(
                orders.c.status == OrderStatus.CONFIRMED, orders.c.refunded_amount == orders.c.amount, _under_way == 0
            ),
        ),
    ),
)

CHECKS = (
    _charged_once,
    _orders_paid,
    _charges_end,
    _resolved,
    _within_payment,
    _count_refunds,
    _whole,
    _charges_open,
)
