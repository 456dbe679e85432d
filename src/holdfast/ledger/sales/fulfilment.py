"""An order that was sent to its buyer."""

from sqlalchemy import Connection, update

from holdfast.domain.sale.sale import Order, OrderStatus
from holdfast.ledger.engine.facts import record
from holdfast.ledger.money.refunds import lock_order
from holdfast.ledger.tables.rows import order_from_row
from holdfast.ledger.tables.sales import orders

FULFILLED = "order.fulfilled"


class NotFulfilled(Exception):
    """The order is in another state; `order` is its current one."""

    def __init__(self, order: Order) -> None:
        super().__init__(f"the order is {order.status}")
        self.order = order


class KeyReused(Exception):
    """It was fulfilled with this idempotency key and another tracking number."""


def fulfil(
    connection: Connection, order_id: str, tracking: str | None, now: int, key: str | None = None
) -> Order | None:
    """The order, fulfilled. A repeat with the same tracking number changes nothing. None if there is no such order."""
    row = lock_order(connection, order_id)
    if row is None:
        return None
    order = order_from_row(row)
    if order.status is OrderStatus.FULFILLED and order.tracking == tracking:
        return order
    if key is not None and row.fulfil_key == key:
        raise KeyReused
    if order.status is not OrderStatus.CONFIRMED:
        raise NotFulfilled(order)
    values = {"status": OrderStatus.FULFILLED.value, "tracking": tracking, "fulfil_key": key, "updated_at": now}
    changed = update(orders).where(orders.c.order_id == order_id).values(**values).returning(*orders.c)
    sent = connection.execute(changed).one()
    about = {"reservation_id": order.reservation_id, "subject": order_id, "quantity": order.quantity}
    record(connection, row.sku_id, FULFILLED, now, {"orders": [{"order_id": order_id, **values}]}, **about)
    return order_from_row(sent)
