"""The stock of a pool that is split: set in the ledger, once, and brought to the shards from there.

More units are on their way to the shards in the transaction that raises the total. Fewer are first given back by the
shards, as many as are free anywhere, and then let go in the transaction that lowers it; if they are not enough, the
shards get them back. So whoever dies in between leaves either total, and units on their way, and a repeat completes it.
The rules of the first shard are those of all.
"""

import asyncio

import structlog
from sqlalchemy import Connection

from holdfast.domain.command import Provision, Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.pool import MAX_TOTAL_UNITS, Rules
from holdfast.domain.shards import shard_names
from holdfast.errors import EngineError, OutcomeUnknown
from holdfast.gate.carrier import Carrier, shares
from holdfast.gate.redis import NOT_READY, RedisGate
from holdfast.gate.redis_views import RedisViews
from holdfast.ledger.database import Database
from holdfast.ledger.splits import Target, change_total, settle_smaller_total

log = structlog.get_logger()

# Others may take what was free when it was counted.
ATTEMPTS = 3


class ShardStock:
    def __init__(self, database: Database, gate: RedisGate, views: RedisViews, carrier: Carrier) -> None:
        self._database = database
        self._gate = gate
        self._views = views
        self._carrier = carrier

    async def provision(self, sku_id: str, shards: int, command: Provision) -> Verdict:
        if command.shards not in (None, shards):
            return Verdict(Outcome.ILLEGAL, shards=shards)
        whole = await self._views.whole(sku_id)
        if command.only_if_missing and whole.is_complete:
            return Verdict(Outcome.ALREADY, pool=whole.pool)
        is_smaller = command.total is not None and command.total < whole.pool.total
        if not is_smaller and not await self._set_rules(sku_id, shards, command):
            return NOT_READY
        verdict = await self._set_total(sku_id, shards, lambda total: total if command.total is None else command.total)
        # If the smaller total is refused, so is everything that was asked for with it.
        if is_smaller and verdict.outcome.is_success and not await self._set_rules(sku_id, shards, command):
            return NOT_READY
        return verdict

    async def restock(self, sku_id: str, shards: int, units: int) -> Verdict:
        return await self._set_total(sku_id, shards, lambda total: total + units)

    # --- rules

    async def _set_rules(self, sku_id: str, shards: int, command: Provision) -> bool:
        """Of the first shard, and then the same for the others. A shard that is missing is made, without units."""
        first, *others = shard_names(sku_id, shards)
        [verdict] = await self._gate.apply(first, [Provision(None, command.rules, command.changes)])
        return verdict.pool is not None and await self.align(others, verdict.pool.rules)

    async def align(self, names: list[str], rules: Rules) -> bool:
        told = await asyncio.gather(*[self._gate.apply(name, [Provision(None, rules)]) for name in names])
        return all(verdict.pool is not None for [verdict] in told)

    # --- units

    async def _set_total(self, sku_id: str, shards: int, target: Target) -> Verdict:
        whole = await self._views.whole(sku_id)
        if target(whole.pool.total) > MAX_TOTAL_UNITS:
            return Verdict(Outcome.ILLEGAL, pool=whole.pool)
        is_set = await self._change(sku_id, shards, target)
        try:
            await self._carrier.deliver(shard_names(sku_id, shards))
            whole = await self._views.whole(sku_id)
        except EngineError as exc:
            raise OutcomeUnknown(f"the total is in the ledger, the shards were not reached: {exc}") from exc
        if not is_set:
            return Verdict(Outcome.INSUFFICIENT, pool=whole.pool, available=whole.pool.available)
        return Verdict(Outcome.MOVED, pool=whole.pool)

    async def _change(self, sku_id: str, shards: int, target: Target) -> bool:
        for _ in range(ATTEMPTS):
            missing = await self._write(change_total, sku_id, target)
            if missing == 0:
                return True
            free = {name: pool.available for name, pool in (await self._views.whole(sku_id)).shards.items()}
            if sum(free.values()) < missing:
                return False
            await self._carrier.give(sku_id, shares(missing, free))
            if await self._write(settle_smaller_total, sku_id, target):
                return True
            await self._carrier.deliver(shard_names(sku_id, shards))
        return False

    async def give_back(self, sku_id: str) -> None:
        """What was collected for a smaller total that nobody set any more is the shards' again."""
        await self._write(settle_smaller_total, sku_id, lambda total: total)

    async def _write(self, change: object, sku_id: str, target: Target) -> int:
        def work(connection: Connection) -> int:
            return int(change(connection, sku_id, target, self._database.now_ms(connection)))  # type: ignore[operator]

        return await self._database.write(work)
