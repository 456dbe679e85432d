"""No unit is sold twice: each sale of a reservation is one order, for what was reserved, at the price of its sale."""

from sqlalchemy import and_, case, exists, func, literal, or_, select

from holdfast.domain.reservation import Status
from holdfast.domain.sale import PaymentKind
from holdfast.ledger.sale_tables import orders, sales, settlements
from holdfast.ledger.tables import events, pools, reservations
from holdfast.verify.check import Check, Level
from holdfast.verify.under_way import UNDER_WAY, is_being_settled, is_unheard

# An order is written when the money is taken, and the gate is told after that.
_to_be_told = and_(
    reservations.c.status == Status.SETTLING, or_(is_being_settled(reservations.c.reservation_id), is_unheard())
)
_for_what_was_reserved = Check(
    "orders_have_reservation",
    "Every order is for a confirmed reservation, of the same buyer, pool and quantity.",
    orders,
    select(orders.c.order_id, orders.c.reservation_id, reservations.c.status)
    .outerjoin(reservations, reservations.c.reservation_id == orders.c.reservation_id)
    .where(
        or_(
            reservations.c.reservation_id.is_(None),
            reservations.c.quantity != orders.c.quantity,
            reservations.c.owner_id != orders.c.buyer_id,
            reservations.c.sku_id != orders.c.sku_id,
            and_(reservations.c.status != Status.CONFIRMED, ~_to_be_told),
        )
    ),
)

_once = Check(
    "orders_once",
    "No reservation was sold in two orders.",
    orders,
    select(orders.c.reservation_id, func.count().label("orders"))
    .group_by(orders.c.reservation_id)
    .having(func.count() > 1),
)

_at_price = Check(
    "orders_at_price",
    "Every order is over its quantity times the price of its sale.",
    orders,
    select(orders.c.order_id, orders.c.quantity, orders.c.amount, orders.c.currency, sales.c.price_amount)
    .outerjoin(sales, sales.c.sale_id == orders.c.sale_id)
    .where(
        or_(
            sales.c.sale_id.is_(None),
            orders.c.amount != orders.c.quantity * sales.c.price_amount,
            orders.c.currency != sales.c.currency,
        )
    ),
)

_told = (
    select(events.c.subject, func.count().label("times"))
    .where(events.c.type == "order.confirmed")
    .group_by(events.c.subject)
    .subquery("told")
)
_told_once = Check(
    "orders_told_once",
    "Of every order the world was told exactly once.",
    orders,
    select(orders.c.order_id, func.coalesce(_told.c.times, 0).label("times_told"))
    .outerjoin(_told, _told.c.subject == orders.c.order_id)
    .where(func.coalesce(_told.c.times, 0) != 1),
)

# Until a sale opens, what is sold from its pool may be of no sale or of the one before.
_in_open_sale = (
    select(events.c.reservation_id, events.c.type, sales.c.sale_id)
    .join(pools, pools.c.sku_id == events.c.sku_id)
    .join(sales, and_(sales.c.sale_id == pools.c.sale_id, events.c.at >= sales.c.opened_at))
)
_sold_have_order = Check(
    "sold_have_order",
    "Everything that was sold in a sale has its order.",
    reservations,
    _in_open_sale.where(
        events.c.type == "reservation.confirmed",
        ~exists().where(orders.c.reservation_id == events.c.reservation_id),
    ),
)
_settling_have_work = Check(
    "settling_have_work",
    "Whoever waits for a payment in a sale has somebody who works on it, unless the caller takes the money.",
    settlements,
    _in_open_sale.join(reservations, reservations.c.reservation_id == events.c.reservation_id).where(
        events.c.type == "reservation.settling",
        reservations.c.status == Status.SETTLING,
        sales.c.payment != PaymentKind.EXTERNAL,
        ~is_being_settled(reservations.c.reservation_id),
        ~is_unheard(),
    ),
)

# Somebody with a service key may confirm what the settler was about to fail: they took the money themselves.
_confirmed_past_settler = exists().where(
    orders.c.reservation_id == settlements.c.reservation_id, orders.c.payment == PaymentKind.EXTERNAL
)
_ending = case(
    (settlements.c.ending.like("confirm%"), Status.CONFIRMED.value),
    (settlements.c.ending.like("fail%"), Status.FAILED.value),
    else_=literal(None),
)
_settled = Check(
    "settlements_agree",
    "Every finished settlement ended its reservation as was decided.",
    settlements,
    select(settlements.c.reservation_id, settlements.c.ending, reservations.c.status)
    .outerjoin(reservations, reservations.c.reservation_id == settlements.c.reservation_id)
    .where(
        settlements.c.state == "done",
        or_(
            reservations.c.reservation_id.is_(None),
            and_(
                reservations.c.status != _ending,
                ~is_unheard(),
                ~and_(reservations.c.status == Status.CONFIRMED, _confirmed_past_settler),
            ),
        ),
    ),
)
_open = Check(
    "settlements_open",
    "Settlements that wait for money, for the gate or, parked, for a person.",
    settlements,
    select(settlements.c.reservation_id, settlements.c.state, settlements.c.reason).where(
        settlements.c.state.in_(UNDER_WAY)
    ),
    Level.OPEN,
)

CHECKS = (_for_what_was_reserved, _once, _at_price, _told_once, _sold_have_order, _settling_have_work, _settled, _open)
