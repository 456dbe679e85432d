"""Whether the shards of a SKU add up, all transfers are complete, and all shards have the same rules.

The ledger provides, in one snapshot, a SKU's total, its shards' units and the units in transfer; the sum must always be
right. Units left in transfer are delivered; those collected for a smaller total that was never set are returned. Shards
whose rules still differ at a second check get those of the first shard.
"""

from collections.abc import Mapping, Sequence

import structlog
from sqlalchemy import Connection

from holdfast.domain.stock.command import Provision
from holdfast.domain.stock.pool import Pool
from holdfast.domain.stock.shards import is_shard, shard_names, whole_of
from holdfast.errors import EngineError
from holdfast.gate.redis.gate import RedisGate
from holdfast.gate.redis.shards.stock import ShardStock
from holdfast.gate.redis.shards.transfers import ShardTransfers
from holdfast.gate.redis.splits import Splits
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.splits import Sums, sums_of_splits
from holdfast.ledger.stock.transfers import left_over

log = structlog.get_logger()

# A transfer takes some tens of milliseconds.
LEFT_AFTER_MS = 1_000
# By then delivery has been tried several times.
LOST_AFTER_MS = 10_000


class ShardAudit:
    def __init__(
        self, database: Database, gate: RedisGate, splits: Splits, transfers: ShardTransfers, stock: ShardStock
    ) -> None:
        self._database = database
        self._gate = gate
        self._splits = splits
        self._transfers = transfers
        self._stock = stock
        self._differing: set[str] = set()

    async def sums(self) -> Mapping[str, Sums]:
        return await self._database.read(sums_of_splits)

    async def finding(self, sku_id: str, sums: Sums) -> str | None:
        """The problem with the shards of a SKU as a whole."""
        if not sums.adds_up:
            return "shards_do_not_add_up"
        waiting = await self._waiting(LOST_AFTER_MS) if sums.in_transfer else []
        return "units_stay_on_their_way" if sku_id in map(whole_of, waiting) else None

    async def deliver_left_over(self) -> None:
        for receiver in await self._waiting(LEFT_AFTER_MS):
            try:
                await self._deliver(receiver)
            except EngineError as exc:
                log.warning("transfer_delivery_failed", receiver=receiver, error=str(exc))

    async def _waiting(self, for_ms: int) -> list[str]:
        def waiting(connection: Connection) -> list[str]:
            return left_over(connection, self._database.now_ms(connection) - for_ms)

        return await self._database.read(waiting)

    async def _deliver(self, receiver: str) -> None:
        log.warning("transfer_left_over", receiver=receiver)
        if is_shard(receiver) or await self._splits.of(receiver) == 1:
            await self._transfers.deliver([receiver])
            return
        await self._stock.give_back(receiver)
        await self._transfers.deliver(shard_names(receiver, await self._splits.of(receiver)))

    async def align_rules(self, sku_id: str, pools: Sequence[Pool]) -> None:
        """The first shard is read again before the others are changed: its rules may be newer than the report."""
        if len({pool.rules for pool in pools}) == 1:
            self._differing.discard(sku_id)
        elif sku_id not in self._differing:
            self._differing.add(sku_id)
        else:
            first, *others = [pool.sku_id for pool in pools]
            [verdict] = await self._gate.apply(first, [Provision(None)])
            if verdict.pool is not None:
                await self._stock.align(others, verdict.pool.rules)
