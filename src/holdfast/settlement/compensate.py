"""More was sold than can be delivered: what becomes of the orders.

The model. The gate never sells more than a pool has. But stock can turn out never to have been there, or to be broken,
and imported data can be wrong. What can be delivered of a sale is what an operator said (`deliverable_units`), and
never more than its pool has in all. Where the orders that stand are more than that, the sale's policy decides, at once
when an operator says so, and at every look of the payment audit: `cancel_last` cancels the newest orders, as many as it
takes, and owes their money back; `fulfil_first` lets all stand and flags the newest, because somebody has to find their
units; `report` only tells. Flags go when there are enough units again.

What happens when it fails. Which orders those are is read once; each is looked at again under its lock, a few in each
transaction, so it may be interrupted and asked for again, and purchases go on meanwhile. What was cancelled stays so.
The pool keeps counting the units as sold: they are not for sale.
"""

from collections.abc import Sequence
from functools import partial

from msgspec import Struct
from sqlalchemy import Connection, insert, update

from holdfast.domain.command import Restock
from holdfast.domain.outcome import Outcome
from holdfast.domain.sale import OrderStatus, OversellPolicy
from holdfast.domain.settling import NOBODYS_KEY
from holdfast.gate.port import Gate
from holdfast.ledger import shortage
from holdfast.ledger.database import Database
from holdfast.ledger.queries import PoolQueries
from holdfast.ledger.refunds import Wanted, enter, left_of, lock_order
from holdfast.ledger.sale_lists import sale_of_pool
from holdfast.ledger.sale_tables import orders
from holdfast.ledger.shortage import Shortage
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
    # Units that are sold and cannot be delivered, after this, and the orders that wait for them.
    shortfall_units: int
    to_source: dict[str, int]


class Compensator:
    def __init__(self, database: Database, gate: Gate, refunder: Refunder) -> None:
        self._database = database
        self._gate = gate
        self._refunder = refunder
        self._pools = PoolQueries(database.dialect_name)

    async def compensate(self, sale_id: str, deliverable_units: int | None) -> Compensation | None:
        """Only so many can be delivered; None: as many as there are. Gives None if there is no such sale."""
        if not await self._database.write(lambda c: shortage.declare(c, sale_id, deliverable_units)):
            return None
        short = await self._read(sale_id)
        await self._take_free(short)
        return await self._act(short)

    async def look(self, *, is_full: bool) -> list[Compensation]:
        """Act on every sale that is short, and let go of flags that are not needed any more; gives those found."""
        found = await self._database.read(shortage.declared)
        if is_full:
            counted = await self._database.read(shortage.found_by_counting)
            found += [short for short in counted if short.sale_id not in {known.sale_id for known in found}]
        acted = [(short, await self._act(short)) for short in found]
        return [done for short, done in acted if short.units]

    async def _act(self, short: Shortage) -> Compensation:
        cancelled: list[str] = []
        if short.policy is OversellPolicy.CANCEL_LAST and short.units:
            cancelled = await self._cancel_newest(short)
            short = await self._read(short.sale_id)
        to_source = await self._flag(short)
        return Compensation(
            short.sale_id,
            short.policy,
            short.sold_units,
            short.deliverable_units,
            cancelled,
            short.units,
            to_source,
        )

    async def _read(self, sale_id: str) -> Shortage:
        short = await self._database.read(lambda c: shortage.of_sale(c, sale_id))
        assert short is not None, "sales are never deleted once they are loaded"
        return short

    async def _take_free(self, short: Shortage) -> None:
        """Nothing more is sold than can be delivered, so what is free beyond that is taken away."""
        sale_id, pool = await self._database.read(
            lambda c: (
                sale_of_pool(c, short.sku_id),
                self._pools.view(c, short.sku_id, self._database.now_ms(c)),
            )
        )
        if sale_id != short.sale_id or pool is None:
            return
        may_be_free = max(short.deliverable_units - short.sold_units - pool.pool.held, 0)
        excess = pool.pool.available - may_be_free
        while excess > 0:
            [verdict] = await self._gate.apply(short.sku_id, [Restock(-excess)])
            if verdict.outcome is not Outcome.INSUFFICIENT or not verdict.available:
                return
            # Some were taken since they were counted.
            excess = min(excess - 1, verdict.available)

    # --- fulfil_first

    async def _flag(self, short: Shortage) -> dict[str, int]:
        is_flagging = short.policy is OversellPolicy.FULFIL_FIRST
        wanted, before = await self._database.read(
            lambda c: (shortage.beyond(c, short) if is_flagging else {}, shortage.flagged(c, short.sale_id))
        )
        if wanted != before:
            await self._database.write(lambda c: shortage.flag(c, short, wanted, self._database.now_ms(c)))
        return wanted

    # --- cancel_last

    async def _cancel_newest(self, short: Shortage) -> list[str]:
        cancelled, newest = [], list(await self._database.read(lambda c: shortage.beyond(c, short)))
        for at in range(0, len(newest), BATCH_MAX):
            batch = newest[at : at + BATCH_MAX]
            cancelled += await self._database.write(partial(self._cancel, order_ids=batch))
        while await self._refunder.pass_once():
            pass
        return cancelled

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
