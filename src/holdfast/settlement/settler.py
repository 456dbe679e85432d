"""Turns reservations that must be paid for into orders.

The model. Work is a row in the ledger (`settlements`), written with the move to settling. The settler serves all pools
with due work side by side, a few transactions at a time, and meanwhile looks for more. So a large sale, or one whose
pool is locked, does not delay a small one. Payments that need no provider (wallets) are settled in bulk, many in one
transaction and without a lease. Payments through a provider are leased, and each case is walked through its effects
(`Interpreter`), many concurrently.

On failure. An effect that fails is retried later with backoff, and parked after `attempts_max`, with its history; the
others continue. A worker that dies leaves leases that expire. The next one continues from the stored state, and asks
the provider if that is insufficient. A worker that slept past its lease is fenced: its number is no longer on the row,
and its events are not applied.
"""

import asyncio
from collections import defaultdict
from collections.abc import Coroutine
from functools import partial
from time import perf_counter

import structlog
from sqlalchemy import Connection

from holdfast.domain.sale.sale import PAID_BY_PROVIDER
from holdfast.domain.sale.settling_case import Resumed
from holdfast.errors import EngineError
from holdfast.ledger.engine.database import Database
from holdfast.ledger.money.settle_batch import DuePool, Lease
from holdfast.runtime.agent import Agent
from holdfast.settlement.interpreter import BATCH_MAX, Interpreter
from holdfast.settlement.posting import Posting
from holdfast.settlement.purchases import TRANSACTIONS_MAX
from holdfast.settlement.throttle import Throttle

log = structlog.get_logger()

BUSY_REST_S = 0.001
SHORTEST_REST_S = 0.02
LONGEST_REST_S = 0.5
# After a full bulk transaction, purchases that wait for the pool get this share of its time.
REST_SHARE = 0.5
# Finding due work counts all of it. So pools with much work get several turns before the next search, and searches are
# at least this far apart.
ROUNDS = 8
LOOK_S = 0.05
# Far beyond the longest provider call: a worker that returns after this was suspended.
LEASE_MS = 30_000


class Settler:
    def __init__(
        self,
        database: Database,
        posting: Posting,
        interpreter: Interpreter,
        *,
        rate_per_second: float = 5_000,
        parallel: int = 64,
        lease_ms: int = LEASE_MS,
        grace_ms: int = 0,
    ) -> None:
        """`grace_ms`: work that became due more recently is left to `Purchases`, unless its pool has older work."""
        self._database = database
        self._posting = posting
        self.interpreter = interpreter
        self._throttle = Throttle(rate_per_second)
        self._parallel = parallel
        self._lease_ms = lease_ms
        self._grace_ms = grace_ms
        # By provider: one that hangs must not occupy the slots of the others.
        self._under_way: defaultdict[str | None, set[asyncio.Task[None]]] = defaultdict(set)
        # Pools being served. Pools with a provider are served one at a time, each taking its share of the free slots.
        self._serving: dict[tuple[str, str | None], asyncio.Task[int]] = {}
        self._transactions, self._leasing = asyncio.Semaphore(TRANSACTIONS_MAX), asyncio.Lock()
        self._wake = asyncio.Event()
        self._turn = 0
        self._idle_rest_s = SHORTEST_REST_S

    def nudge(self) -> None:
        """Signal that there may be work now."""
        if not self._grace_ms:
            self._wake.set()

    def agent(self) -> Agent[int]:
        return Agent(
            "settler", self._look, SHORTEST_REST_S, rest_s=self._rest_s, wake=self._wake, close=self._cancel_all
        )

    def _rest_s(self, done: int) -> float:
        self._idle_rest_s = SHORTEST_REST_S if done else min(self._idle_rest_s * 2, LONGEST_REST_S)
        return BUSY_REST_S if done else self._idle_rest_s

    async def _cancel_all(self) -> None:
        serving = list(self._serving.values())
        for task in [*serving, *self._all_under_way()]:
            task.cancel()
        # Their transactions end before the ledger is closed.
        await asyncio.gather(*serving, return_exceptions=True)

    def _all_under_way(self) -> list[asyncio.Task[None]]:
        return [task for tasks in self._under_way.values() for task in tasks]

    async def settle_all(self) -> None:
        """Settle until nothing is due any more; deferred work is left."""
        while await self.pass_once() or self._all_under_way():
            if under_way := self._all_under_way():
                await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)

    async def pass_once(self) -> int:
        """Several turns for every pool that has due work. Returns how much was started."""
        return sum(await asyncio.gather(*await self._start_due()))

    async def _look(self) -> int:
        """The same, but returns as soon as there may be other pools to serve. Returns 0 if nothing could be started."""
        await self._start_due()
        serving = list(self._serving.values())
        if not serving:
            return 0
        done, waiting = await asyncio.wait(serving, timeout=LOOK_S)
        return sum(task.result() for task in done) + len(waiting)

    async def _start_due(self) -> list[asyncio.Task[int]]:
        """Start to serve pools with due work, except those still being served."""
        queries, now_ms = self._posting.queries, self._database.now_ms
        due = await self._database.read(lambda c: queries.due_pools(c, now_ms(c) - self._grace_ms))
        if not due:
            return []
        # The first pool may use up the rate or the parallelism, so pools take turns at being first.
        self._turn += 1
        start = self._turn % len(due)
        started = []
        for pool in [*due[start:], *due[:start]]:
            key = pool.sku_id, pool.payment
            if key not in self._serving:
                task = self._serving[key] = asyncio.create_task(self._serve_some_turns(pool, len(due)))
                task.add_done_callback(partial(self._served, key))
                started.append(task)
        return started

    def _served(self, key: tuple[str, str | None], _done: "asyncio.Task[int]") -> None:
        del self._serving[key]

    async def _serve_some_turns(self, pool: DuePool, pools: int) -> int:
        taken = 0
        for _ in range(ROUNDS):
            async with self._leasing if pool.payment in PAID_BY_PROVIDER else self._transactions:
                count = await self._serve(pool, pools)
            taken += count
            if count < BATCH_MAX:
                break
        return taken

    async def _serve(self, pool: DuePool, pools: int) -> int:
        """A failing pool must not block the others."""
        try:
            if pool.payment in PAID_BY_PROVIDER:
                return await self._start_some(pool, pools)
            return await self._settle_in_bulk(pool)
        except EngineError as exc:
            log.warning("settler_pool_failed", sku_id=pool.sku_id, error=str(exc))
        except Exception:
            log.exception("settler_pool_failed", sku_id=pool.sku_id)
        return 0

    # --- in the ledger, in bulk

    async def _settle_in_bulk(self, pool: DuePool) -> int:
        await self._throttle.spend(min(pool.count, BATCH_MAX))
        started = perf_counter()
        try:
            records = await self._database.write(lambda c: self._posting.settle_due(c, pool.sku_id, BATCH_MAX))
        except EngineError:
            raise
        except Exception:
            # Something in the batch cannot be settled, and must not block the rest.
            log.exception("settlement_batch_failed", sku_id=pool.sku_id)
            return await self._start_leased(pool, BATCH_MAX)
        self.interpreter.note_outcomes(records)
        if len(records) == BATCH_MAX:
            await asyncio.sleep((perf_counter() - started) * REST_SHARE)
        await asyncio.gather(*[self.interpreter.proceed(record) for record in records if record.pending])
        return len(records)

    # --- leased, one by one but many at once

    async def _start_some(self, pool: DuePool, pools: int) -> int:
        free = self._parallel - len(self._under_way[pool.payment])
        if free <= self._parallel // 8:
            return 0
        wanted = min(pool.count, max(free // pools, 1), BATCH_MAX)
        await self._throttle.spend(wanted)
        return await self._start_leased(pool, wanted)

    async def _start_leased(self, pool: DuePool, limit: int) -> int:
        leases = await self._database.write(lambda c: self._lease(c, pool.sku_id, limit))
        for lease in leases:
            self._start(pool.payment, self.interpreter.settle(lease, Resumed()))
        return len(leases)

    def _lease(self, connection: Connection, sku_id: str, limit: int) -> list[Lease]:
        now = self._database.now_ms(connection)
        return self._posting.queries.lease(connection, sku_id, now, now + self._lease_ms, limit)

    def _start(self, provider: str | None, work: Coroutine[None, None, None]) -> None:
        task, under_way = asyncio.create_task(work), self._under_way[provider]
        under_way.add(task)
        task.add_done_callback(partial(self._finished, under_way))

    def _finished(self, under_way: set[asyncio.Task[None]], task: "asyncio.Task[None]") -> None:
        under_way.discard(task)
        # Searching for due work after every single case would cost more than it gains.
        if len(under_way) <= self._parallel * 3 // 4:
            self.nudge()
