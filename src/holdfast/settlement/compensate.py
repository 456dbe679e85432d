"""More was sold than can be delivered: what becomes of the orders.

The gate never sells more than a pool has. But stock can turn out never to have been there, or to be broken. Then an
operator says how many units of a sale can be delivered, and the sale's policy decides: `cancel_last` cancels the newest
orders, as many as it takes, and owes their money back; `fulfil_first` lets all stand and says how many units somebody
has to find. Which those are is read once; each is looked at again under its lock, a few in each transaction, so it may
be interrupted and asked for again, and purchases go on meanwhile.
The pool keeps counting the units as sold: they are not for sale.
"""

from collections.abc import Sequence
from functools import partial

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, func, insert, select, update

from holdfast.domain.sale import OrderStatus, OversellPolicy
from holdfast.domain.settling import NOBODYS_KEY
from holdfast.ledger.database import Database
from holdfast.ledger.refunds import Wanted, enter, left_of, lock_order
from holdfast.ledger.sale_tables import orders
from holdfast.ledger.sales import find_sale
from holdfast.ledger.tables import events
from holdfast.settlement.refund import Refunder

REFUND_KEY = f"{NOBODYS_KEY}compensation"
# Short transactions: whoever refunds or buys meanwhile waits for one of them at most.
BATCH_MAX = 16


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
            newest = await self._database.read(lambda c: _newest(c, sale_id, deliverable_units))
            for at in range(0, len(newest), BATCH_MAX):
                batch = newest[at : at + BATCH_MAX]
                cancelled += await self._database.write(partial(self._cancel, order_ids=batch))
            while await self._refunder.pass_once():
                pass
        sold = await self._database.read(lambda c: _sold(c, sale_id))
        short = max(sold - deliverable_units, 0)
        return Compensation(sale_id, sale.oversell_policy, sold, deliverable_units, cancelled, short)

    def _cancel(self, connection: Connection, order_ids: Sequence[str]) -> list[str]:
        return [order_id for order_id in order_ids if self._cancel_one(connection, order_id)]

    def _cancel_one(self, connection: Connection, order_id: str) -> bool:
        order, now = lock_order(connection, order_id), self._database.now_ms(connection)
        if order is None or order.status != OrderStatus.CONFIRMED:
            return False
        # What is on its way back already, on request, is not owed again.
        if left_of(connection, order):
            enter(connection, f"rfd_{order_id[4:]}", Wanted(order_id, REFUND_KEY), now)
        connection.execute(
            update(orders).where(orders.c.order_id == order_id).values(status=OrderStatus.CANCELLED.value)
        )
        about = {"sku_id": order.sku_id, "reservation_id": order.reservation_id, "subject": order_id}
        connection.execute(insert(events).values(type="order.cancelled", at=now, quantity=order.quantity, **about))
        return True


def _newest(connection: Connection, sale_id: str, deliverable_units: int) -> list[str]:
    """The newest orders, as many as it takes until the rest can be delivered."""
    excess, wanted = _sold(connection, sale_id) - deliverable_units, []
    newest = select(orders.c.order_id, orders.c.quantity).where(_stands(sale_id))
    for row in connection.execute(newest.order_by(orders.c.created_at.desc(), orders.c.order_id.desc())):
        if excess <= 0:
            break
        wanted.append(row.order_id)
        excess -= row.quantity
    return wanted


def _stands(sale_id: str) -> ColumnElement[bool]:
    return (orders.c.sale_id == sale_id) & (orders.c.status == OrderStatus.CONFIRMED.value)


def _sold(connection: Connection, sale_id: str) -> int:
    total = select(func.coalesce(func.sum(orders.c.quantity), 0)).where(_stands(sale_id))
    return int(connection.execute(total).scalar_one())
