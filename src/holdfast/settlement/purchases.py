"""Settles the purchases that intents name (`HOLDFAST_SETTLEMENT_SOURCE=kafka`).

The model. An intent is a wake-up. The work itself is the settlement's row in the ledger, which is claimed under its
pool's lock or by a lease. So an intent that arrives twice, or at two workers, settles nothing twice. Each product has
its own queue, with one batch in flight, so a hot product does not delay the others. Payments that need no provider
(wallets) are settled in bulk. Payments through a provider are leased and walked one by one, and the product's next
batch does not wait for the provider's responses.

On failure. The settler finds a settlement that has to wait for its next attempt, or whose intent was lost: it looks for
work that has been due for some seconds.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence

import structlog
from msgspec import Struct
from sqlalchemy import Connection

from holdfast.domain.sale.sale import PAID_BY_PROVIDER
from holdfast.domain.sale.settling_case import Resumed
from holdfast.errors import EngineError
from holdfast.ledger.engine.database import Database
from holdfast.ledger.money.settle_batch import DuePurchase, Lease
from holdfast.runtime.batching import KeyedBatcher
from holdfast.settlement.interpreter import BATCH_MAX, Interpreter
from holdfast.settlement.posting import Posting
from holdfast.settlement.throttle import Throttle

log = structlog.get_logger()

# The caller bounds how many purchases it hands over at once.
QUEUE_MAX = 100_000
# Concurrent transactions: a worker has eight connections by default, and others need some of them.
TRANSACTIONS_MAX = 4
# This many of the calls that a provider may have in flight are left for other products.
LEFT_FOR_OTHERS = 4

Walk = asyncio.Task[None]


class _Group(Struct):
    """Due purchases of one pool that are paid in the same way."""

    sku_id: str
    ids: list[str]


class Purchases:
    def __init__(
        self,
        database: Database,
        posting: Posting,
        interpreter: Interpreter,
        *,
        rate_per_second: float,
        parallel: int,
        lease_ms: int,
    ) -> None:
        self._database, self._posting, self._interpreter = database, posting, interpreter
        self._throttle = Throttle(rate_per_second)
        self._lease_ms = lease_ms
        self._transactions = asyncio.Semaphore(TRANSACTIONS_MAX)
        self._slots = asyncio.Semaphore(parallel)
        self._of_product = parallel - max(parallel // LEFT_FOR_OTHERS, 1) if parallel > 1 else 1
        self._own_slots: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(self._of_product))
        self._batcher: KeyedBatcher[str, Walk | None] = KeyedBatcher(
            self._settle_batch, batch_max=BATCH_MAX, queue_max=QUEUE_MAX
        )

    async def settle(self, sku_id: str, reservation_id: str) -> None:
        """Settle as far as possible now. Raises an EngineError if the ledger does not respond; the result is then
        unknown."""
        walk = await self._batcher.submit(sku_id, reservation_id)
        if walk is not None:
            await asyncio.shield(walk)

    async def _settle_batch(self, sku_id: str, ids: Sequence[str], /) -> list[Walk | None]:
        queries, now_ms = self._posting.queries, self._database.now_ms
        async with self._transactions:
            due = await self._database.read(lambda c: queries.due_among(c, ids, now_ms(c)))
        if not due:
            return [None] * len(ids)
        await self._throttle.spend(len(due))
        walks: dict[str, Walk] = {}
        for group in _by_pool(one for one in due if one.payment not in PAID_BY_PROVIDER):
            await self._settle_in_bulk(group)
        for group in _by_pool(one for one in due if one.payment in PAID_BY_PROVIDER):
            walks |= await self._start(sku_id, group)
        return [walks.get(id_) for id_ in ids]

    async def _settle_in_bulk(self, group: _Group) -> None:
        try:
            async with self._transactions:
                records = await self._database.write(lambda c: self._posting.settle_these(c, group.sku_id, group.ids))
        except EngineError:
            raise
        except Exception:
            # One item in the batch cannot be settled, and must not block the rest.
            log.exception("settlement_batch_failed", sku_id=group.sku_id)
            leases = await self._leases(group.ids)
            await asyncio.gather(*[self._interpreter.settle(lease, Resumed()) for lease in leases])
            return
        self._interpreter.note_outcomes(records)
        await asyncio.gather(*[self._interpreter.proceed(record) for record in records if record.pending])

    async def _start(self, product: str, group: _Group) -> dict[str, Walk]:
        """Slots are taken before the leases, which must not expire while waiting for a slot."""
        own, walks, left = self._own_slots[product], dict[str, Walk](), group.ids
        while left:
            taken = await self._take(own, len(left))
            part, left = left[:taken], left[taken:]
            try:
                leases = await self._leases(part)
            except BaseException:
                self._release(own, taken)
                raise
            self._release(own, taken - len(leases))
            walks |= {lease.reservation_id: asyncio.create_task(self._walk(lease, own)) for lease in leases}
        return walks

    async def _take(self, own: asyncio.Semaphore, wanted: int) -> int:
        """At least one slot, and as many more as are free."""
        taken = 0
        while taken < wanted and (taken == 0 or not (own.locked() or self._slots.locked())):
            await own.acquire()
            await self._slots.acquire()
            taken += 1
        return taken

    def _release(self, own: asyncio.Semaphore, count: int) -> None:
        for _ in range(count):
            own.release()
            self._slots.release()

    async def _walk(self, lease: Lease, own: asyncio.Semaphore) -> None:
        try:
            await self._interpreter.settle(lease, Resumed())
        finally:
            self._release(own, 1)

    async def _leases(self, ids: Sequence[str]) -> list[Lease]:
        async with self._transactions:
            return await self._database.write(lambda c: self._lease(c, ids))

    def _lease(self, connection: Connection, ids: Sequence[str]) -> list[Lease]:
        now = self._database.now_ms(connection)
        return self._posting.queries.lease_these(connection, ids, now, now + self._lease_ms)


def _by_pool(due: Iterable[DuePurchase]) -> list[_Group]:
    """A product that is split has several pools."""
    groups: dict[str, _Group] = {}
    for one in due:
        groups.setdefault(one.sku_id, _Group(one.sku_id, [])).ids.append(one.reservation_id)
    return list(groups.values())
