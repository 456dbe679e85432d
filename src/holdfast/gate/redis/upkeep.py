"""Maintenance of a pool in Redis, in portions because it may have a million holds: compares holds, deletes expired
data.

A pool with few holds is added up in one call and compared with its counts. For a larger one, each check compares some
holds with their deadlines and owners, until all are covered. Within a portion nothing changes, so a hold that disagrees
is certainly wrong. Idempotency keys, and replies kept for retries, are deleted when they expire.
"""

from time import monotonic

from holdfast.gate.redis.client import RedisClient
from holdfast.gate.redis.encoding import REDIS_KEYS_KEPT_MS, Keys, decode
from holdfast.ledger.engine.database import Database

# Redis is blocked while it sums up holds.
AUDIT_HOLDS_MAX = 20_000
# Takes Redis a few milliseconds.
PORTION = 2_000
# Keys are kept for a day.
SWEEP_INTERVAL_S = 3_600.0
# A call is retried immediately, after a timeout of seconds.
CALLS_KEPT_MS = 60_000

_DONE = "0"


class Upkeep:
    def __init__(self, client: RedisClient, database: Database) -> None:
        self._client = client
        self._database = database
        self._audits: dict[str, str] = {}
        self._sweeps: dict[str, str] = {}
        self._swept_at: dict[str, float] = {}

    async def contradiction(self, sku_id: str, *, is_due: bool, thorough: bool) -> str | None:
        """A problem with the holds of a pool, as far as they are checked now."""
        if is_due:
            is_wrong = await self._add_up(sku_id)
            if is_wrong is None:
                self._audits.setdefault(sku_id, _DONE)
            elif is_wrong:
                return "gate_contradiction"
        while sku_id in self._audits:
            if await self._compare_portion(sku_id):
                return "gate_contradiction"
            if not thorough:
                break
        return None

    async def _add_up(self, sku_id: str) -> bool | None:
        """Whether the holds contradict the counts; None if there are too many holds."""
        match decode(await self._client.call_function("holdfast_audit_v2", Keys(sku_id).all, [AUDIT_HOLDS_MAX])):
            case [_, _, held, active, units, active_holds, deadlines]:
                return (held, active, active) != (units, active_holds, deadlines)
        return None

    async def _compare_portion(self, sku_id: str) -> bool:
        names, cursor = Keys(sku_id).all, self._audits.pop(sku_id)
        cursor, wrong = decode(await self._client.call_function("holdfast_audit_portion_v2", names, [cursor, PORTION]))
        if cursor != _DONE:
            self._audits[sku_id] = cursor
        return bool(wrong)

    async def sweep(self, sku_id: str, epoch: int, *, thorough: bool) -> None:
        """Delete a portion of what has expired."""
        now = monotonic()
        if thorough or now - self._swept_at.get(sku_id, -SWEEP_INTERVAL_S) >= SWEEP_INTERVAL_S:
            self._swept_at[sku_id] = now
            self._sweeps.setdefault(sku_id, _DONE)
        while sku_id in self._sweeps:
            await self._sweep_portion(sku_id, epoch)
            if not thorough:
                break

    async def _sweep_portion(self, sku_id: str, epoch: int) -> None:
        kept_ms, now = (REDIS_KEYS_KEPT_MS, CALLS_KEPT_MS), self._database.known_now_ms() or 0
        reply = await self._client.call_function(
            "holdfast_sweep_v2", Keys(sku_id).all, [epoch, self._sweeps.pop(sku_id), PORTION, *kept_ms, now]
        )
        if (cursor := reply.decode()) != _DONE:
            self._sweeps[sku_id] = cursor
