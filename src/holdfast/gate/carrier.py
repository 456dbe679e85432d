"""Units are carried from one shard to another, and none is lost or doubled on the way.

The model. A donor gives: its total shrinks, and its journal says to whom and under which number. The ledger reads that,
and has the units as being on their way from the moment the donor does not have them any more. Only what the ledger has
may be taken: the receiver's total grows, and it remembers the number, so that it takes nothing twice whoever tells it
to. When the ledger reads that, the units have arrived.

What happens when it fails. A give that Redis loses before the ledger has read it never happened. A take that Redis
loses is sent again, because the ledger still has the units as being on their way. Whoever dies in between leaves units
on their way, which the reconciler delivers.
"""

import asyncio
from collections.abc import Iterable, Mapping

import structlog
from sqlalchemy import Connection

from holdfast.domain.command import Give, Take
from holdfast.domain.pool import Pool
from holdfast.domain.state import Transfer
from holdfast.errors import EngineError
from holdfast.gate.redis import RedisGate
from holdfast.ledger.database import Database
from holdfast.ledger.transfers import waiting_for
from holdfast.settlement.rebuild import Rebuilder

log = structlog.get_logger()


class Carrier:
    def __init__(self, database: Database, gate: RedisGate, rebuilder: Rebuilder) -> None:
        self._database = database
        self._gate = gate
        self._rebuilder = rebuilder

    async def fetch(self, receiver: str, units: int, shards: Mapping[str, Pool]) -> list[Take]:
        """Have the other shards give what this one lacks, as far as they can; gives what it may take then."""
        lacking = units - shards[receiver].available if receiver in shards else units
        free = {name: pool.available for name, pool in shards.items() if name != receiver}
        if lacking > 0:
            # Rather half of what the richest has than again in a moment.
            await self.give(receiver, shares(max(lacking, max(free.values(), default=0) // 2), free))
        return await self.arriving(receiver)

    async def give(self, receiver: str, portions: Mapping[str, int]) -> None:
        """Each of these donors gives so much, or what it has, and the ledger knows of it."""
        gives = [self._give(donor, Give(receiver, units)) for donor, units in portions.items() if units > 0]
        for failure in await asyncio.gather(*gives, return_exceptions=True):
            if isinstance(failure, EngineError):
                # Another donor may have enough; and what this one gave after all will arrive.
                log.warning("shard_gave_nothing", receiver=receiver, error=str(failure))
            elif failure is not None:
                raise failure

    async def _give(self, donor: str, command: Give) -> None:
        [verdict] = await self._gate.apply(donor, [command])
        if verdict.units:
            await self._rebuilder.drain_until(donor, self._gate.seen(donor))

    async def arriving(self, receiver: str) -> list[Take]:
        def waiting(connection: Connection) -> list[Transfer]:
            return waiting_for(connection, [receiver])

        return [Take(t.donor, t.number, t.units) for t in await self._database.read(waiting)]

    async def deliver(self, receivers: Iterable[str]) -> None:
        """Have each take what is on its way to it."""
        await asyncio.gather(*[self._deliver(receiver) for receiver in receivers])

    async def _deliver(self, receiver: str) -> None:
        takes = await self.arriving(receiver)
        if takes:
            await self._gate.apply(receiver, takes)


def shares(lacking: int, free: Mapping[str, int]) -> dict[str, int]:
    """Who gives how much, the richest first."""
    portions: dict[str, int] = {}
    for name in sorted(free, key=lambda name: free[name], reverse=True):
        if lacking <= 0:
            break
        portions[name] = min(free[name], lacking)
        lacking -= portions[name]
    return portions
