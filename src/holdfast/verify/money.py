"""I3 and I4: at most one charge per reservation, and every charge ends as an order or a refund."""

from sqlalchemy import and_, case, exists, func, or_, select

from holdfast.domain.sale.sale import OrderStatus, PaymentKind
from holdfast.ledger.tables.money import is_returned, payments, refunds
from holdfast.ledger.tables.sales import is_sold, orders
from holdfast.verify.check import Check, Level
from holdfast.verify.in_progress import IN_PROGRESS, is_being_settled

_is_captured = payments.c.state == "captured"
_asked = ("attempted", "authorised", "claimed")

_charged_once = Check(
    "charged_once",
    "Nobody was charged twice for one reservation.",
    payments,
    select(payments.c.reservation_id, func.count().label("charges"), func.sum(payments.c.amount).label("amount"))
    .where(
        payments.c.state.in_((*_asked, "captured")),
        # Money that a provider took although it had declined the payment is returned.
        ~is_returned,
    )
    .group_by(payments.c.reservation_id)
    .having(func.count() > 1),
)

_paid = exists().where(
    payments.c.reservation_id == orders.c.reservation_id,
    _is_captured,
    ~is_returned,
    payments.c.amount == orders.c.amount,
    payments.c.currency == orders.c.currency,
    payments.c.provider == orders.c.payment,
    payments.c.buyer_id == orders.c.buyer_id,
)
_is_ours = and_(is_sold, orders.c.payment != PaymentKind.EXTERNAL, orders.c.amount > 0)
_orders_paid = Check(
    "orders_paid",
    "Every order that a provider charged has a captured payment of the same amount that was not returned. "
    "Orders confirmed with a service key were paid externally.",
    orders,
    select(orders.c.order_id, orders.c.reservation_id, orders.c.amount, orders.c.payment).where(_is_ours, ~_paid),
)

_refunded = (
    select(
        refunds.c.payment_key,
        refunds.c.currency,
        func.max(refunds.c.order_id).label("order_id"),
        func.sum(refunds.c.amount).label("amount"),
        func.sum(case((refunds.c.state.in_(IN_PROGRESS), 1), else_=0)).label("in_progress"),
    )
    .where(refunds.c.state != "dropped")
    .group_by(refunds.c.payment_key, refunds.c.currency)
    .subquery("refunded")
)
_covered = func.coalesce(_refunded.c.amount, 0) >= payments.c.amount
_has_order = exists().where(
    orders.c.reservation_id == payments.c.reservation_id, orders.c.payment != PaymentKind.EXTERNAL, is_sold
)
_without_order = (
    select(payments.c.payment_key, payments.c.reservation_id, payments.c.provider, payments.c.amount)
    .outerjoin(
        _refunded,
        and_(_refunded.c.payment_key == payments.c.payment_key, _refunded.c.currency == payments.c.currency),
    )
    .where(_is_captured, payments.c.amount > 0, ~_has_order)
)
_charges_end = Check(
    "charges_end",
    "Every charge has an order, is refunded in full, or is still in progress.",
    payments,
    _without_order.where(~_covered, ~is_being_settled(payments.c.reservation_id)),
)
_charges_open = Check(
    "charges_open",
    "Charges in progress: without an order or a completed refund yet.",
    payments,
    _without_order.where(
        or_(and_(~_covered, is_being_settled(payments.c.reservation_id)), and_(_covered, _refunded.c.in_progress > 0))
    ),
    Level.OPEN,
)

_resolved = Check(
    "payments_resolved",
    "No payment has an unknown outcome, except those still in progress.",
    payments,
    select(payments.c.payment_key, payments.c.reservation_id, payments.c.state).where(
        payments.c.state.in_(_asked), ~is_being_settled(payments.c.reservation_id)
    ),
)

# An order that was paid externally has no payment here, so its amount is the limit for refunds.
_refundable = func.coalesce(
    case((_is_captured, payments.c.amount), else_=None),
    case((orders.c.payment == PaymentKind.EXTERNAL, orders.c.amount), else_=None),
    0,
)
_within_payment = Check(
    "refunds_within_payment",
    "No payment was refunded by more than was taken.",
    refunds,
    select(_refunded.c.payment_key, _refunded.c.amount.label("refunded"), _refundable.label("taken"))
    .outerjoin(
        payments,
        and_(payments.c.payment_key == _refunded.c.payment_key, payments.c.currency == _refunded.c.currency),
    )
    .outerjoin(orders, orders.c.order_id == _refunded.c.order_id)
    .where(_refunded.c.amount > _refundable),
)

_of_order = (
    select(
        refunds.c.order_id,
        func.sum(case((refunds.c.state == "done", refunds.c.amount), else_=0)).label("done"),
        func.sum(case((refunds.c.state.in_(IN_PROGRESS), refunds.c.amount), else_=0)).label("in_progress"),
    )
    .where(refunds.c.order_id.is_not(None))
    .group_by(refunds.c.order_id)
    .subquery("of_order")
)
_done, _in_progress = func.coalesce(_of_order.c.done, 0), func.coalesce(_of_order.c.in_progress, 0)
_with_refunds = orders.outerjoin(_of_order, _of_order.c.order_id == orders.c.order_id)
_count_refunds = Check(
    "orders_count_refunds",
    "The refunded amount of every order matches its refunds; refunds in progress may be included or not.",
    orders,
    select(orders.c.order_id, orders.c.refunded_amount, _done.label("done"), _in_progress.label("in_progress"))
    .select_from(_with_refunds)
    .where(or_(orders.c.refunded_amount < _done, orders.c.refunded_amount > _done + _in_progress)),
)

_is_cancelled = orders.c.status.in_((OrderStatus.REFUNDED, OrderStatus.CANCELLED))
_whole = Check(
    "orders_refunded_whole",
    "Orders are refunded in full if, and only if, they are cancelled or refunded.",
    orders,
    select(orders.c.order_id, orders.c.status, orders.c.amount, orders.c.refunded_amount)
    .select_from(_with_refunds)
    .where(
        _is_ours,
        or_(
            and_(_is_cancelled, _done + _in_progress < orders.c.amount),
            and_(
                orders.c.status == OrderStatus.CONFIRMED, orders.c.refunded_amount == orders.c.amount, _in_progress == 0
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
