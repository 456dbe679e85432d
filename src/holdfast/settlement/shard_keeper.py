"""Do the shards of a SKU add up, has everything on its way arrived, and have all of them the same rules?

The ledger says at one moment how many units a SKU has, what its shards have and what is on its way; the sum must be
right at every moment. Units that somebody left on their way are delivered; those that were collected for a smaller
total which nobody set go back. Shards whose rules still differ at a second look get those of the first.
"""

from collections.abc import Mapping, Sequence

import structlog
from sqlalchemy import Connection

from holdfast.domain.command import Provision
from holdfast.domain.pool import Pool
from holdfast.domain.shards import is_shard, shard_names, whole_of
from holdfast.errors import EngineError
from holdfast.gate.carrier import Carrier
from holdfast.gate.redis import RedisGate
from holdfast.gate.shard_stock import ShardStock
from holdfast.gate.splits import Splits
from holdfast.ledger.database import Database
from holdfast.ledger.splits import Sums, sums
from holdfast.ledger.transfers import left_over

log = structlog.get_logger()

# Whoever carries units needs some tens of milliseconds for it.
LEFT_AFTER_MS = 1_000
# By then they were to be delivered several times.
LOST_AFTER_MS = 10_000


class ShardKeeper:
    def __init__(
        self, database: Database, gate: RedisGate, splits: Splits, carrier: Carrier, stock: ShardStock
    ) -> None:
        self._database = database
        self._gate = gate
        self._splits = splits
        self._carrier = carrier
        self._stock = stock
        self._at_odds: set[str] = set()

    async def sums(self) -> Mapping[str, Sums]:
        return await self._database.read(sums)

    async def finding(self, sku_id: str, of_sku: Sums) -> str | None:
        """What is wrong with the shards of a SKU together."""
        if not of_sku.adds_up:
            return "shards_do_not_add_up"
        waiting = await self._waiting(LOST_AFTER_MS) if of_sku.on_its_way else []
        return "units_stay_on_their_way" if sku_id in map(whole_of, waiting) else None

    async def deliver_left_over(self) -> None:
        for receiver in await self._waiting(LEFT_AFTER_MS):
            try:
                await self._deliver(receiver)
            except EngineError as exc:
                log.warning("units_not_delivered", receiver=receiver, error=str(exc))

    async def _waiting(self, for_ms: int) -> list[str]:
        def waiting(connection: Connection) -> list[str]:
            return left_over(connection, self._database.now_ms(connection) - for_ms)

        return await self._database.read(waiting)

    async def _deliver(self, receiver: str) -> None:
        log.warning("units_left_on_their_way", receiver=receiver)
        if is_shard(receiver) or await self._splits.of(receiver) == 1:
            await self._carrier.deliver([receiver])
            return
        await self._stock.give_back(receiver)
        await self._carrier.deliver(shard_names(receiver, await self._splits.of(receiver)))

    async def align_rules(self, sku_id: str, pools: Sequence[Pool]) -> None:
        """The first shard is asked again before the others are told: it may have been changed since it was seen."""
        if len({pool.rules for pool in pools}) == 1:
            self._at_odds.discard(sku_id)
        elif sku_id not in self._at_odds:
            self._at_odds.add(sku_id)
        else:
            first, *others = [pool.sku_id for pool in pools]
            [verdict] = await self._gate.apply(first, [Provision(None)])
            if verdict.pool is not None:
                await self._stock.align(others, verdict.pool.rules)
