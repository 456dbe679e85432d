"""No unit is sold twice: a sold reservation has one order, with the reserved quantity and the price of its sale."""

from sqlalchemy import and_, case, exists, func, literal, or_, select

from holdfast.domain.sale.sale import OrderStatus, PaymentKind
from holdfast.domain.stock.reservation import Status
from holdfast.ledger.tables.money import settlements
from holdfast.ledger.tables.sales import is_sold, orders, quoted_prices, sales
from holdfast.ledger.tables.stock import events, pools, reservations
from holdfast.verify.check import Check, Level
from holdfast.verify.in_progress import IN_PROGRESS, is_being_settled, is_not_drained

# An order is written when the money is taken, and the gate is notified after that.
_gate_not_notified = and_(
    reservations.c.status == Status.SETTLING, or_(is_being_settled(reservations.c.reservation_id), is_not_drained())
)
_is_pending = orders.c.status == OrderStatus.PENDING
_RETURNED = (Status.FAILED, Status.CANCELLED, Status.EXPIRED)
_for_what_was_reserved = Check(
    "orders_have_reservation",
    "Every order has a reservation of the same buyer, pool and quantity: a confirmed one if it was paid, a held one "
    "while it is pending, and one whose units returned if it was cancelled unpaid.",
    orders,
    select(orders.c.order_id, orders.c.reservation_id, reservations.c.status)
    .outerjoin(reservations, reservations.c.reservation_id == orders.c.reservation_id)
    .where(
        or_(
            reservations.c.reservation_id.is_(None),
            reservations.c.quantity != orders.c.quantity,
            reservations.c.owner_id != orders.c.buyer_id,
            reservations.c.sku_id != orders.c.sku_id,
            and_(is_sold, reservations.c.status != Status.CONFIRMED, ~_gate_not_notified),
            and_(_is_pending, reservations.c.status.not_in((Status.ACTIVE, Status.SETTLING))),
            and_(~is_sold, ~_is_pending, reservations.c.status.not_in(_RETURNED)),
        )
    ),
)

_once = Check(
    "orders_once",
    "No reservation has two orders.",
    orders,
    select(orders.c.reservation_id, func.count().label("orders"))
    .group_by(orders.c.reservation_id)
    .having(func.count() > 1),
)

_at_price = Check(
    "orders_at_price",
    "The amount of every order is what its quote said or, without one, its quantity times the price of its sale.",
    orders,
    select(orders.c.order_id, orders.c.quantity, orders.c.amount, orders.c.currency, sales.c.price_amount)
    .outerjoin(sales, sales.c.sale_id == orders.c.sale_id)
    .outerjoin(quoted_prices, quoted_prices.c.reservation_id == orders.c.reservation_id)
    .where(
        or_(
            and_(is_sold, sales.c.sale_id.is_(None)),
            orders.c.amount != func.coalesce(quoted_prices.c.amount, orders.c.quantity * sales.c.price_amount),
            orders.c.currency != func.coalesce(quoted_prices.c.currency, sales.c.currency),
            func.coalesce(orders.c.quote, "") != func.coalesce(quoted_prices.c.quote, ""),
        )
    ),
)

_announced = (
    select(events.c.subject, func.count().label("times"))
    .where(events.c.type == "order.confirmed")
    .group_by(events.c.subject)
    .subquery("announced")
)
_announced_once = Check(
    "orders_announced_once",
    "Every order that was paid has exactly one `order.confirmed` event, and no other order has any.",
    orders,
    select(orders.c.order_id, func.coalesce(_announced.c.times, 0).label("times_told"))
    .outerjoin(_announced, _announced.c.subject == orders.c.order_id)
    .where(func.coalesce(_announced.c.times, 0) != case((is_sold, 1), else_=0)),
)

# Before a sale opens, units sold from its pool may belong to no sale or to the previous one.
_in_open_sale = (
    select(events.c.reservation_id, events.c.type, sales.c.sale_id)
    .join(pools, pools.c.sku_id == events.c.sku_id)
    .join(sales, and_(sales.c.sale_id == pools.c.sale_id, events.c.at >= sales.c.opened_at))
)
_sold_have_order = Check(
    "sold_have_order",
    "Everything sold in a sale has an order.",
    reservations,
    _in_open_sale.where(
        events.c.type == "reservation.confirmed",
        ~exists().where(orders.c.reservation_id == events.c.reservation_id, is_sold),
    ),
)
_settling_have_work = Check(
    "settling_have_work",
    "Every reservation that is settling in a sale has a settlement in progress, unless payment is external.",
    settlements,
    _in_open_sale.join(reservations, reservations.c.reservation_id == events.c.reservation_id).where(
        events.c.type == "reservation.settling",
        reservations.c.status == Status.SETTLING,
        sales.c.payment != PaymentKind.EXTERNAL,
        ~is_being_settled(reservations.c.reservation_id),
        ~is_not_drained(),
    ),
)

# A service key may confirm what the settler was about to fail. A direct confirm means payment was taken externally.
_confirmed_externally = exists().where(
    orders.c.reservation_id == settlements.c.reservation_id, orders.c.payment == PaymentKind.EXTERNAL, is_sold
)
_ending = case(
    (settlements.c.ending.like("confirm%"), Status.CONFIRMED.value),
    (settlements.c.ending.like("fail%"), Status.FAILED.value),
    else_=literal(None),
)
_settled = Check(
    "settlements_agree",
    "Every finished settlement ended its reservation as decided.",
    settlements,
    select(settlements.c.reservation_id, settlements.c.ending, reservations.c.status)
    .outerjoin(reservations, reservations.c.reservation_id == settlements.c.reservation_id)
    .where(
        settlements.c.state == "done",
        or_(
            reservations.c.reservation_id.is_(None),
            and_(
                reservations.c.status != _ending,
                ~is_not_drained(),
                ~and_(reservations.c.status == Status.CONFIRMED, _confirmed_externally),
            ),
        ),
    ),
)
_open = Check(
    "settlements_open",
    "Settlements in progress: waiting for a payment, for the gate or, if parked, for a person.",
    settlements,
    select(settlements.c.reservation_id, settlements.c.state, settlements.c.reason).where(
        settlements.c.state.in_(IN_PROGRESS)
    ),
    Level.OPEN,
)

CHECKS = (
    _for_what_was_reserved,
    _once,
    _at_price,
    _announced_once,
    _sold_have_order,
    _settling_have_work,
    _settled,
    _open,
)
