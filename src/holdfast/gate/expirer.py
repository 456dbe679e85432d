"""Returns units of overdue holds to their pool.

A batch that runs short returns overdue holds itself; the expirer returns them when no commands arrive. Every pass finds
the pools with overdue holds and returns them through the gate in portions, alternating between pools. So a million
holds that become due in one pool do not delay the others, and delay that pool's buyers only for one portion. Passes
continue meanwhile, and a pool that does not respond blocks only one slot. Several expirers may run: the pool's lock
serialises them, and the second finds nothing left to do.
"""

import asyncio
from time import monotonic

from sqlalchemy import Connection

from holdfast.domain.stock.command import Expire
from holdfast.gate.port import Gate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.queries import pool_queries
from holdfast.runtime import metrics
from holdfast.runtime.agent import Agent
from holdfast.runtime.log import log_failure

# Units must be back well within a second of their deadline; an idle pass is one indexed query.
PASS_INTERVAL_S = 0.2
# No hold is shorter than a second, so a hold that is not due within this time will not be due before the next pass.
LONGEST_REST_MS = 800
# Holds per portion, which takes some milliseconds.
PORTION = 100
# Smaller where one writer serves all pools, because all other writes wait meanwhile.
PORTION_OF_ONE_WRITER = 50
LONGEST_PAUSE_S = 0.01
# Pools that return a portion concurrently.
TURNS = 4


class Expirer:
    def __init__(self, database: Database, gate: Gate) -> None:
        self._database = database
        self._gate = gate
        self._queries = pool_queries(database.dialect_name)
        has_one_writer = database.dialect_name == "sqlite"
        self._portion = min(PORTION, PORTION_OF_ONE_WRITER) if has_one_writer else PORTION
        self._rest_s = PASS_INTERVAL_S
        # Slots are assigned in order of arrival, so pools take turns.
        self._turns = asyncio.Semaphore(TURNS)
        self._returning: dict[str, asyncio.Task[int]] = {}

    def agent(self) -> Agent[int]:
        # Units must be back well within a second, even after an outage, so failures do not lengthen the interval.
        return Agent(
            "expirer",
            self.pass_once,
            PASS_INTERVAL_S,
            rest_s=lambda _: self._rest_s,
            longest_backoff_s=PASS_INTERVAL_S,
            close=self._stop,
        )

    async def pass_once(self, wait_s: float = PASS_INTERVAL_S) -> int:
        """Start to return all units overdue now; wait up to `wait_s`, and count those of pools that are finished."""
        now, soon = await self._database.read(self._pools_due_soon)
        due = [(sku_id, earliest) for sku_id, earliest in soon if earliest <= now]
        first_ms = min((earliest - now for _, earliest in soon), default=LONGEST_REST_MS)
        self._rest_s = max(PASS_INTERVAL_S, first_ms / 1000)
        metrics.EXPIRER_LAG_SECONDS.set(max((now - earliest for _, earliest in due), default=0) / 1000)
        tasks = [self._start(sku_id) for sku_id, _ in due if sku_id not in self._returning]
        if not tasks:
            return 0
        done, _ = await asyncio.wait(tasks, timeout=wait_s)
        return sum(task.result() for task in done)

    def _start(self, sku_id: str) -> asyncio.Task[int]:
        task = self._returning[sku_id] = asyncio.create_task(self._expire_or_log(sku_id))
        task.add_done_callback(lambda _: self._returning.pop(sku_id))
        return task

    async def _stop(self) -> None:
        tasks = list(self._returning.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _expire_or_log(self, sku_id: str) -> int:
        """A failing pool must not block the units of the others."""
        try:
            return await self._expire(sku_id)
        except Exception as exc:
            log_failure("expirer_pool_failed", exc, sku_id=sku_id)
            return 0

    def _pools_due_soon(self, connection: Connection) -> tuple[int, list[tuple[str, int]]]:
        now = self._database.now_ms(connection)
        return now, self._queries.due_pools(connection, now + LONGEST_REST_MS)

    async def _expire(self, sku_id: str) -> int:
        returned = 0
        while True:
            async with self._turns:
                started = monotonic()
                [verdict] = await self._gate.apply(sku_id, [Expire(self._portion)])
                took_s = monotonic() - started
            metrics.EXPIRED_UNITS.inc(verdict.units)
            returned += verdict.units
            if verdict.units < self._portion:
                return returned
            # Buyers of this pool get half of its time, unless the machine itself is slow.
            await asyncio.sleep(min(took_s, LONGEST_PAUSE_S))
