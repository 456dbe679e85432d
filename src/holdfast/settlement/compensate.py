"""Decides what happens to orders when more was sold than can be delivered.

The model. The gate never sells more than a pool has. But stock can turn out to be missing or broken, and imported data
can be wrong. A sale can deliver what an operator declared (`deliverable_units`), and never more than its pool has in
total. If the standing orders exceed that, the sale's policy applies, immediately when an operator declares it and in
every payment audit. `cancel_last` cancels the newest orders, as many as necessary, and refunds them. `fulfil_first`
keeps all of them, uses the sale's `buffer_units`, and flags the newest of the rest, whose units have to be sourced.
`report` only reports. More than `review_above_percent` of what was sold is never cancelled automatically: that needs an
operator's approval. Flags are removed when there are enough units again.
approval. Flags are removed when there are enough units again.

On failure. The affected orders are read once, each is checked again under its lock, a few per transaction, and the
excess is counted again each time. So it can be interrupted, repeated and run concurrently with purchases. Cancelled
orders stay cancelled. The pool keeps counting the units as sold: they are not for sale.
"""

from collections.abc import Sequence
from functools import partial

from msgspec import Struct
from sqlalchemy import Connection, update

from holdfast.domain.sale.sale import OrderStatus, OversellPolicy
from holdfast.domain.sale.settling_case import INTERNAL_KEY_PREFIX
from holdfast.domain.stock.command import Restock
from holdfast.domain.stock.outcome import Outcome
from holdfast.gate.port import Gate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.facts import record
from holdfast.ledger.money.refunds import Wanted, enter, left_of, lock_order
from holdfast.ledger.sales import shortage
from holdfast.ledger.sales.sale_lists import lock_sale, sale_of_pool
from holdfast.ledger.sales.shortage import Shortage
from holdfast.ledger.stock.queries import pool_queries
from holdfast.ledger.tables.sales import orders
from holdfast.settlement.refund import Refunder

REFUND_KEY = f"{INTERNAL_KEY_PREFIX}compensation"
# Short transactions, because a refund or a purchase may have to wait for one of them.
BATCH_MAX = 16


class Compensation(Struct, frozen=True):
    sale_id: str
    policy: OversellPolicy
    sold_units: int
    deliverable_units: int
    cancelled: list[str]
    # Units that are sold and still cannot be delivered, and the orders that wait for them.
    shortfall_units: int
    to_source: dict[str, int]
    # Nothing was cancelled: that needs an operator's approval.
    needs_review: bool = False


class Compensator:
    def __init__(self, database: Database, gate: Gate, refunder: Refunder) -> None:
        self._database = database
        self._gate = gate
        self._refunder = refunder
        self._pools = pool_queries(database.dialect_name)

    async def compensate(
        self, sale_id: str, deliverable_units: int | None, *, is_approved: bool = False
    ) -> Compensation | None:
        """Declare how many units can be delivered (None: all). Returns None if there is no such sale."""
        if not await self._database.write(
            lambda c: shortage.declare(c, sale_id, deliverable_units, self._database.now_ms(c))
        ):
            return None
        short = await self._read(sale_id)
        await self._take_free(short)
        return await self._act(short, is_approved=is_approved)

    async def look(self, *, is_full: bool) -> list[Compensation]:
        """Process every sale that is short, remove obsolete flags, and return the sales found."""
        found = await self._database.read(shortage.declared)
        if is_full:
            counted = await self._database.read(shortage.found_by_counting)
            found += [short for short in counted if short.sale_id not in {known.sale_id for known in found}]
        acted = [(short, await self._act(short)) for short in found]
        return [done for short, done in acted if short.units]

    async def _act(self, short: Shortage, *, is_approved: bool = False) -> Compensation:
        cancelled: list[str] = []
        must_wait = short.needs_review and not is_approved
        if short.policy is OversellPolicy.CANCEL_LAST and short.units and not must_wait:
            cancelled = await self._cancel_newest(short.sale_id, is_approved)
            short = await self._read(short.sale_id)
        to_source = await self._flag(short)
        sold, deliverable = short.sold_units, short.deliverable_units
        units = short.units
        return Compensation(short.sale_id, short.policy, sold, deliverable, cancelled, units, to_source, must_wait)

    async def _read(self, sale_id: str) -> Shortage:
        short = await self._database.read(lambda c: shortage.of_sale(c, sale_id))
        assert short is not None, "sales are never deleted once they are loaded"
        return short

    async def _take_free(self, short: Shortage) -> None:
        """Remove free units that could not be delivered, so that they are not sold."""
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
            # Some were reserved since they were counted.
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

    async def _cancel_newest(self, sale_id: str, is_approved: bool) -> list[str]:
        cancelled, newest = [], await self._database.read(lambda c: _beyond(c, sale_id))
        for at in range(0, len(newest), BATCH_MAX):
            batch = newest[at : at + BATCH_MAX]
            cancel = partial(self._cancel, sale_id=sale_id, order_ids=batch, is_approved=is_approved)
            cancelled += await self._database.write(cancel)
        while await self._refunder.pass_once():
            pass
        return cancelled

    def _cancel(self, connection: Connection, sale_id: str, order_ids: Sequence[str], is_approved: bool) -> list[str]:
        """Counts again under the sale's lock: in the meantime, orders may have been cancelled or refunded, or so few
        units declared that an operator has to decide."""
        lock_sale(connection, sale_id)
        cancelled, short = [], shortage.of_sale(connection, sale_id)
        must_wait = short is None or (short.needs_review and not is_approved)
        excess = 0 if short is None or must_wait else short.units
        for order_id in order_ids:
            units = self._cancel_one(connection, order_id) if excess > 0 else 0
            cancelled += [order_id] if units else []
            excess -= units
        return cancelled

    def _cancel_one(self, connection: Connection, order_id: str) -> int:
        """Returns how many units need not be delivered any more."""
        order, now = lock_order(connection, order_id), self._database.now_ms(connection)
        if order is None or order.status != OrderStatus.CONFIRMED:
            return 0
        # An amount that was refunded on request is not refunded again.
        if left_of(connection, order):
            enter(connection, f"rfd_{order_id[4:]}", Wanted(order_id, REFUND_KEY), now)
        values = {"status": OrderStatus.CANCELLED.value, "updated_at": now}
        connection.execute(update(orders).where(orders.c.order_id == order_id).values(**values))
        about = {"reservation_id": order.reservation_id, "subject": order_id, "quantity": order.quantity}
        facts = {"orders": [{"order_id": order_id, **values}]}
        record(connection, order.sku_id, "order.cancelled", now, facts, **about)
        return int(order.quantity)


def _beyond(connection: Connection, sale_id: str) -> list[str]:
    short = shortage.of_sale(connection, sale_id)
    return [] if short is None else list(shortage.beyond(connection, short))
