"""More was sold than can be delivered: what becomes of the orders.

The gate never sells more than a pool has. But stock can turn out never to have been there, or to be broken. Then an
operator says how many units of a sale can be delivered, and the sale's policy decides: `cancel_last` cancels the newest
orders, as many as it takes, and owes their money back; `fulfil_first` lets all stand and says how many units somebody
has to find. Cancelling is done order by order under the lock of each, so it may be interrupted and asked for again.
The pool keeps counting the units as sold: they are not for sale.
"""

from contextlib import suppress

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, func, insert, select, update

from holdfast.domain.sale import OrderStatus, OversellPolicy
from holdfast.ledger.database import Database
from holdfast.ledger.refunds import RefundProblem, Wanted, enter, lock_order
from holdfast.ledger.sale_tables import orders
from holdfast.ledger.sales import find_sale
from holdfast.ledger.tables import events
from holdfast.settlement.refund import Refunder

REFUND_KEY = "compensation"


class Compensation(Struct, frozen=True):
    sale_id: str
    policy: OversellPolicy
    sold_units: int
    deliverable_units: int
    cancelled: list[str]
    # Units that are sold and cannot be delivered, after this.
    shortfall_units: int


class Compensator:
    def __init__(self, database: Database, refunder: Refunder) -> None:
        self._database = database
        self._refunder = refunder

    async def compensate(self, sale_id: str, deliverable_units: int) -> Compensation | None:
        """None if there is no such sale."""
        sale = await self._database.read(lambda c: find_sale(c, sale_id))
        if sale is None:
            return None
        cancelled: list[str] = []
        if sale.oversell_policy is OversellPolicy.CANCEL_LAST:
            while order_id := await self._database.write(lambda c: self._cancel_last(c, sale_id, deliverable_units)):
                cancelled.append(order_id)
            while await self._refunder.pass_once():
                pass
        sold = await self._database.read(lambda c: _sold(c, sale_id))
        short = max(sold - deliverable_units, 0)
        return Compensation(sale_id, sale.oversell_policy, sold, deliverable_units, cancelled, short)

    def _cancel_last(self, connection: Connection, sale_id: str, deliverable_units: int) -> str | None:
        """Cancel the newest order, if there is still more sold than can be delivered."""
        newest = (
            select(orders.c.order_id)
            .where(_stands(sale_id))
            .order_by(orders.c.created_at.desc(), orders.c.order_id.desc())
            .limit(1)
            .with_for_update()
        )
        order_id: str | None = connection.execute(newest).scalar_one_or_none()
        if order_id is None or _sold(connection, sale_id) <= deliverable_units:
            return None
        order, now = lock_order(connection, order_id), self._database.now_ms(connection)
        assert order is not None
        # What is on its way back already, on request, is not owed again.
        with suppress(RefundProblem):
            enter(connection, f"rfd_{order_id[4:]}", Wanted(order_id, REFUND_KEY), now)
        connection.execute(
            update(orders).where(orders.c.order_id == order_id).values(status=OrderStatus.CANCELLED.value)
        )
        about = {"sku_id": order.sku_id, "reservation_id": order.reservation_id, "subject": order_id}
        connection.execute(insert(events).values(type="order.cancelled", at=now, quantity=order.quantity, **about))
        return order_id


def _stands(sale_id: str) -> ColumnElement[bool]:
    return (orders.c.sale_id == sale_id) & (orders.c.status == OrderStatus.CONFIRMED.value)


def _sold(connection: Connection, sale_id: str) -> int:
    total = select(func.coalesce(func.sum(orders.c.quantity), 0)).where(_stands(sale_id))
    return int(connection.execute(total).scalar_one())
