"""Units whose deadline has passed return to their pool.

A batch that runs short returns overdue holds by itself; this does the rest, so that nobody has to ask. Every pass finds
the pools with overdue holds and sends each an `expire` command through the same gate as everything else, in bounded
batches. Several expirers may run: the pool's lock makes them take turns, and the second finds nothing left to do.
"""

import asyncio

import structlog
from sqlalchemy import Connection

from holdfast import metrics
from holdfast.domain.command import Expire
from holdfast.errors import EngineError
from holdfast.gate.port import Gate
from holdfast.ledger.challenges import prune_spent
from holdfast.ledger.database import Database
from holdfast.ledger.deliveries import prune_deliveries
from holdfast.ledger.queries import PoolQueries, prune_keys
from holdfast.ledger.rooms import prune_slowness

log = structlog.get_logger()

# Units must be back well within a second of their deadline; an idle pass is one indexed query.
PASS_INTERVAL_S = 0.2
# No hold is shorter than a second, so what is not due within this time now will not be before the next look.
LONGEST_REST_MS = 800
BATCH_LIMIT = 500

# The contract promises 24 hours; the extra hour keeps a retry at the last minute safe.
KEYS_KEPT_MS = 25 * 3_600_000
# Long enough to find out why a receiver missed something, and to send it again.
DELIVERIES_KEPT_MS = 7 * 24 * 3_600_000
# A challenge expires by the host's clock and is forgotten by the engine's, which may differ.
SPENT_KEPT_MS = 3_600_000
# It tells about the gate for two seconds.
SLOWNESS_KEPT_MS = 60_000
PRUNE_INTERVAL_S = 60.0
PRUNE_LIMIT = 2_000


def tell(event: str, exc: Exception, **facts: object) -> None:
    """An engine that is away is a matter of time; anything else is a defect, and its trace is wanted."""
    if isinstance(exc, EngineError):
        log.warning(event, error=str(exc), **facts)
    else:
        log.error(event, exc_info=exc, **facts)


class Expirer:
    def __init__(self, database: Database, gate: Gate) -> None:
        self._database = database
        self._gate = gate
        self._queries = PoolQueries(database.dialect_name)
        self._rest_s = PASS_INTERVAL_S

    async def run(self) -> None:
        while True:
            self._rest_s = PASS_INTERVAL_S
            try:
                await self.pass_once()
            except Exception as exc:
                tell("expirer_pass_failed", exc)
            await asyncio.sleep(self._rest_s)

    async def pass_once(self) -> int:
        """Return all units overdue now, and how many there were."""
        now, soon = await self._database.read(self._pools_due_soon)
        due = [(sku_id, earliest) for sku_id, earliest in soon if earliest <= now]
        first_ms = min((earliest - now for _, earliest in soon), default=LONGEST_REST_MS)
        self._rest_s = max(PASS_INTERVAL_S, first_ms / 1000)
        metrics.EXPIRER_LAG_SECONDS.set(max((now - earliest for _, earliest in due), default=0) / 1000)
        return sum([await self._expire_ortell(sku_id) for sku_id, _ in due])

    async def _expire_ortell(self, sku_id: str) -> int:
        """One pool that fails must not keep the units of the others."""
        try:
            return await self._expire(sku_id)
        except Exception as exc:
            tell("expirer_pool_failed", exc, sku_id=sku_id)
            return 0

    def _pools_due_soon(self, connection: Connection) -> tuple[int, list[tuple[str, int]]]:
        now = self._database.now_ms(connection)
        return now, self._queries.due_pools(connection, now + LONGEST_REST_MS)

    async def _expire(self, sku_id: str) -> int:
        returned = 0
        while True:
            [verdict] = await self._gate.apply(sku_id, [Expire(BATCH_LIMIT)])
            metrics.EXPIRED_UNITS.inc(verdict.units)
            returned += verdict.units
            if verdict.units < BATCH_LIMIT:
                return returned


class Pruner:
    """Forgets what nobody needs any more: idempotency records, deliveries that are done, challenges that are spent, how
    slow the gate was."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def run(self) -> None:
        while True:
            try:
                while await self.pass_once() == PRUNE_LIMIT:
                    pass
            except Exception as exc:
                tell("pruner_pass_failed", exc)
            await asyncio.sleep(PRUNE_INTERVAL_S)

    async def pass_once(self) -> int:
        """As many as the fullest portion had."""
        prunings = (self._prune_keys, self._prune_deliveries, self._prune_spent, self._prune_slowness)
        return max([await self._database.write(work) for work in prunings])

    def _prune_keys(self, connection: Connection) -> int:
        older_than = self._database.now_ms(connection) - KEYS_KEPT_MS
        return prune_keys(connection, older_than, limit=PRUNE_LIMIT)

    def _prune_deliveries(self, connection: Connection) -> int:
        older_than = self._database.now_ms(connection) - DELIVERIES_KEPT_MS
        return prune_deliveries(connection, older_than, limit=PRUNE_LIMIT)

    def _prune_spent(self, connection: Connection) -> int:
        older_than = self._database.now_ms(connection) - SPENT_KEPT_MS
        return prune_spent(connection, older_than, limit=PRUNE_LIMIT)

    def _prune_slowness(self, connection: Connection) -> int:
        # All of them: a process leaves a row for each pool, and pools are few.
        prune_slowness(connection, self._database.now_ms(connection) - SLOWNESS_KEPT_MS)
        return 0
