"""How far the ledger is behind the journals in Redis. It reads both, so it is right even if no drainer runs."""

import asyncio

from holdfast.gate.lag import Lag
from holdfast.gate.redis.client import RedisClient
from holdfast.gate.redis.encoding import Keys, decode_entry
from holdfast.gate.redis.link.port import Command
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.batch import Position
from holdfast.ledger.stock.journal import positions

# Journals read concurrently.
AT_ONCE = 32


class JournalLag:
    def __init__(self, database: Database, client: RedisClient) -> None:
        self._database, self._client = database, client

    async def by_pool(self) -> dict[str, Lag]:
        """The lag of every pool in Redis. A shard counts as a pool."""
        at = await self._database.read(positions)
        now, turns = self._database.known_now_ms() or 0, asyncio.Semaphore(AT_ONCE)

        async def lag(sku_id: str, position: Position) -> Lag:
            async with turns:
                return await self._lag(sku_id, position, now)

        lags = await asyncio.gather(*[lag(sku_id, position) for sku_id, position in at.items()])
        return dict(zip(at, lags, strict=True))

    async def _lag(self, sku_id: str, at: Position, now: int) -> Lag:
        """Entries of another epoch belong to a rebuild in progress, which copies or drops them."""
        journal = Keys(sku_id).journal
        until = f"{at.epoch}-18446744073709551615"
        first: Command = ["XRANGE", journal, f"{at.epoch}-{at.seq + 1}", until, "COUNT", 1]
        last: Command = ["XREVRANGE", journal, until, f"{at.epoch}-{at.seq + 1}", "COUNT", 1]
        [oldest, newest] = await self._client.call(journal, first, last)
        if not oldest or not newest:
            return Lag()
        entry_id, (_, payload) = oldest[0]
        entry = decode_entry(sku_id, entry_id, payload)
        return Lag.since(int(newest[0][0].decode().partition("-")[2]) - at.seq, entry.now, now)
