"""Moves units from one shard to another without losing or duplicating any.

The model. A donor gives: its total shrinks, and its journal records the receiver and a number. Once the ledger has read
that entry, the units are in transfer. Only units that the ledger has read may be taken: the receiver's total grows, and
it stores the number, so that it takes nothing twice. When the ledger reads that, the transfer is complete.

What happens when it fails. A give that Redis loses before the ledger has read it never happened. A take that Redis
loses is repeated by the ledger when it rebuilds the pool, because it still has the units in transfer. A process that
dies in between leaves units in transfer, which the reconciler delivers.
"""

import asyncio
from collections.abc import Iterable, Mapping

import structlog

from holdfast.domain.stock.command import Give, Take
from holdfast.domain.stock.pool import Pool
from holdfast.errors import EngineError
from holdfast.gate.redis.gate import RedisGate
from holdfast.gate.redis.rebuilder import Rebuilder
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.transfers import takes_for

log = structlog.get_logger()


class ShardTransfers:
    def __init__(self, database: Database, gate: RedisGate, rebuilder: Rebuilder) -> None:
        self._database = database
        self._gate = gate
        self._rebuilder = rebuilder

    async def fetch(self, receiver: str, units: int, shards: Mapping[str, Pool]) -> list[Take]:
        """Let the other shards give what this one lacks, as far as they can. Returns what it may take then."""
        lacking = units - shards[receiver].available if receiver in shards else units
        free = {name: pool.available for name, pool in shards.items() if name != receiver}
        if lacking > 0:
            # At least half of what the richest shard has, to avoid repeating this soon.
            await self.give(receiver, shares(max(lacking, max(free.values(), default=0) // 2), free))
        return await self.arriving(receiver)

    async def give(self, receiver: str, portions: Mapping[str, int]) -> None:
        """Each donor gives its portion, or all it has; then the ledger reads the gives."""
        gives = [self._give(donor, Give(receiver, units)) for donor, units in portions.items() if units > 0]
        for failure in await asyncio.gather(*gives, return_exceptions=True):
            if isinstance(failure, EngineError):
                # Another donor may have enough, and if this one gave after all, its units will be delivered.
                log.warning("shard_give_failed", receiver=receiver, error=str(failure))
            elif failure is not None:
                raise failure

    async def _give(self, donor: str, command: Give) -> None:
        [verdict] = await self._gate.apply(donor, [command])
        if verdict.units:
            await self._rebuilder.drain_until(donor, self._gate.seen(donor))

    async def arriving(self, receiver: str) -> list[Take]:
        return await self._database.read(lambda c: takes_for(c, receiver))

    async def deliver(self, receivers: Iterable[str]) -> None:
        """Let each pool take the units in transfer to it."""
        await asyncio.gather(*[self._deliver(receiver) for receiver in receivers])

    async def _deliver(self, receiver: str) -> None:
        takes = await self.arriving(receiver)
        if takes:
            await self._gate.apply(receiver, takes)


def shares(lacking: int, free: Mapping[str, int]) -> dict[str, int]:
    """How much each shard gives, the richest first."""
    portions: dict[str, int] = {}
    for name in sorted(free, key=lambda name: free[name], reverse=True):
        if lacking <= 0:
            break
        portions[name] = min(free[name], lacking)
        lacking -= portions[name]
    return portions
