"""The stock of a split pool: set in the ledger, once, and distributed to the shards from there.

A larger total puts the new units in transfer to the shards, in the transaction that raises it. For a smaller one, the
shards first give back free units, which leave in the transaction that lowers it; if they are not enough, the shards get
them back. A process that dies in between leaves either the old or the new total, with units in transfer; repeating the
change completes it. The rules of the first shard apply to all.

Rules and total are set in two steps. A pool that was put in a sale between them keeps the sale's total: every write of
a total checks for the sale under the lock, and the sale takes that lock after its row exists.
"""

import asyncio

import structlog
from sqlalchemy import Connection

from holdfast.domain.stock.command import Provision, Verdict
from holdfast.domain.stock.limits import MAX_TOTAL_UNITS
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.domain.stock.shards import shard_names
from holdfast.errors import EngineError, OutcomeUnknown
from holdfast.gate.redis.gate import NOT_READY, RedisGate
from holdfast.gate.redis.shards.transfers import ShardTransfers, shares
from holdfast.gate.redis.views import RedisViews
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.sale_lists import is_in_sale
from holdfast.ledger.stock.splits import Target, change_total, settle_smaller_total

log = structlog.get_logger()

# Other commands may take units that were free when they were counted.
ATTEMPTS = 3


class _PutInSale(Exception):
    """Nothing was written."""


class ShardStock:
    def __init__(self, database: Database, gate: RedisGate, views: RedisViews, transfers: ShardTransfers) -> None:
        self._database = database
        self._gate = gate
        self._views = views
        self._transfers = transfers

    async def provision(self, sku_id: str, shards: int, command: Provision) -> Verdict:
        if command.shards not in (None, shards):
            return Verdict(Outcome.ILLEGAL, shards=shards)
        whole = await self._views.whole(sku_id)
        if command.only_if_missing and whole.is_complete:
            return Verdict(Outcome.ALREADY, pool=whole.pool)
        is_smaller = command.total is not None and command.total < whole.pool.total
        # If the smaller total is refused, the rules sent with it are not set either.
        before = Provision(None, unless_in_sale=command.unless_in_sale) if is_smaller else command
        refusal = await self._set_rules(sku_id, shards, before)
        if refusal is not None:
            return refusal
        try:
            verdict = await self._set_total(
                sku_id,
                shards,
                lambda total: total if command.total is None else command.total,
                unless_in_sale=command.unless_in_sale,
            )
        except _PutInSale:
            return Verdict(Outcome.ILLEGAL, pool=(await self._views.whole(sku_id)).pool)
        if is_smaller and verdict.outcome.is_success:
            return await self._set_rules(sku_id, shards, command) or verdict
        return verdict

    async def restock(self, sku_id: str, shards: int, units: int) -> Verdict:
        return await self._set_total(sku_id, shards, lambda total: total + units)

    # --- rules

    async def _set_rules(self, sku_id: str, shards: int, command: Provision) -> Verdict | None:
        """Set the rules of the first shard, then the same for the others. Returns the refusal, if there is one. The
        first shard decides whether the pool is in a sale. A missing shard is created without units."""
        first, *others = shard_names(sku_id, shards)
        rules = Provision(None, command.rules, command.changes, unless_in_sale=command.unless_in_sale)
        [verdict] = await self._gate.apply(first, [rules])
        if verdict.outcome is Outcome.ILLEGAL:
            return Verdict(Outcome.ILLEGAL, pool=(await self._views.whole(sku_id)).pool)
        is_set = verdict.pool is not None and await self.align(others, verdict.pool.rules)
        return None if is_set else NOT_READY

    async def align(self, names: list[str], rules: Rules) -> bool:
        verdicts = await asyncio.gather(*[self._gate.apply(name, [Provision(None, rules)]) for name in names])
        return all(verdict.pool is not None for [verdict] in verdicts)

    # --- units

    async def _set_total(self, sku_id: str, shards: int, target: Target, *, unless_in_sale: bool = False) -> Verdict:
        whole = await self._views.whole(sku_id)
        if target(whole.pool.total) > MAX_TOTAL_UNITS:
            return Verdict(Outcome.ILLEGAL, pool=whole.pool)
        is_set = await self._change(sku_id, shards, target, unless_in_sale=unless_in_sale)
        try:
            await self._transfers.deliver(shard_names(sku_id, shards))
            whole = await self._views.whole(sku_id)
        except EngineError as exc:
            raise OutcomeUnknown(f"the total is in the ledger, the shards were not reached: {exc}") from exc
        if not is_set:
            return Verdict(Outcome.INSUFFICIENT, pool=whole.pool, available=whole.pool.available)
        return Verdict(Outcome.MOVED, pool=whole.pool)

    async def _change(self, sku_id: str, shards: int, target: Target, *, unless_in_sale: bool) -> bool:
        for _ in range(ATTEMPTS):
            missing = await self._write(change_total, sku_id, target, unless_in_sale=unless_in_sale)
            if missing == 0:
                return True
            free = {name: pool.available for name, pool in (await self._views.whole(sku_id)).shards.items()}
            if sum(free.values()) < missing:
                return False
            await self._transfers.give(sku_id, shares(missing, free))
            try:
                is_set = await self._write(settle_smaller_total, sku_id, target, unless_in_sale=unless_in_sale)
            except _PutInSale:
                await self.give_back(sku_id)
                await self._transfers.deliver(shard_names(sku_id, shards))
                raise
            if is_set:
                return True
            await self._transfers.deliver(shard_names(sku_id, shards))
        return False

    async def give_back(self, sku_id: str) -> None:
        """Return units to the shards that were collected for a smaller total that was never set."""
        await self._write(settle_smaller_total, sku_id, lambda total: total)

    async def _write(self, change: object, sku_id: str, target: Target, *, unless_in_sale: bool = False) -> int:
        def work(connection: Connection) -> int:
            changed = int(change(connection, sku_id, target, self._database.now_ms(connection)))  # type: ignore[operator]
            if unless_in_sale and is_in_sale(connection, sku_id):
                raise _PutInSale
            return changed

        return await self._database.write(work)
