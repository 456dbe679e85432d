"""A gate in Valkey and its ledger, put together as the server does it, by a clock that the test sets."""

from typing import Any

from books import Books, read_books
from holdfast.domain.state import Counters
from holdfast.gate.carrier import Carrier
from holdfast.gate.functions import Functions
from holdfast.gate.library import source
from holdfast.gate.link.port import Command, RedisLink
from holdfast.gate.link.redis_link import open_link
from holdfast.gate.redis import RedisGate
from holdfast.gate.redis_views import GatePool, RedisViews
from holdfast.gate.shard_stock import ShardStock
from holdfast.gate.shards import ShardedGate
from holdfast.gate.splits import Splits
from holdfast.ledger.batch import Position
from holdfast.ledger.database import Database
from holdfast.ledger.journal import position
from holdfast.ledger.transfers import counters_of
from holdfast.settlement.drain import Drainer
from holdfast.settlement.rebuild import Rebuilder
from holdfast.settlement.reconcile import Reconciler, RedisBooks
from holdfast.settlement.shard_keeper import ShardKeeper
from set_clock import SetClock

# The functions' own clock reads Redis's; this one reads what the test has set.
CLOCK = """
local function now_ms(decided_at)
  return math.max(tonumber(redis.call('GET', 'hf:clock')), decided_at)
end
"""


# A busy machine may let Redis wait for its turn; an answer that comes too late is of unknown outcome.
LINK_TIMEOUT_S = 20.0


class ClockedLink:
    """Tells Redis the time of the test before every call."""

    def __init__(self, link: RedisLink, clock: SetClock) -> None:
        self._link = link
        self._clock = clock

    async def call(self, key: str, *commands: Command) -> list[Any]:
        await self._link.call("hf:clock", ["SET", "hf:clock", self._clock.now])
        return await self._link.call(key, *commands)

    async def call_everywhere(self, *commands: Command) -> list[list[Any]]:
        return await self._link.call_everywhere(*commands)

    async def close(self) -> None:
        await self._link.close()


class RedisWorld:
    def __init__(self, database: Database, url: str) -> None:
        self.database = database
        self.clock = SetClock(database)
        self.link = ClockedLink(open_link(url, timeout_s=LINK_TIMEOUT_S), self.clock)
        self.functions = Functions(self.link, source(CLOCK))
        self.drainer = Drainer(self.clock, self.link)
        self.rebuilder = Rebuilder(self.clock, self.functions, self.drainer)
        self.suspected: list[tuple[str, str]] = []
        self.splits = Splits(self.clock)
        self.views = RedisViews(self.functions, self.clock, self.splits)
        gate = self.open_gate()
        carrier = Carrier(self.clock, gate, self.rebuilder)
        stock = ShardStock(self.clock, gate, self.views, carrier)
        self.carrier = carrier
        self.keeper = ShardKeeper(self.clock, gate, self.splits, carrier, stock)
        self.reconciler = Reconciler(self.clock, RedisBooks(self.functions, self.views, self.rebuilder, self.keeper))

    def open_gate(self, functions: Functions | None = None) -> RedisGate:
        return RedisGate(functions or self.functions, self.clock, self.rebuilder, self._suspect)

    def open_sharded_gate(self, functions: Functions | None = None) -> ShardedGate:
        """As another process would have it, with nothing known yet."""
        given = functions or self.functions
        splits, gate = Splits(self.clock), self.open_gate(given)
        views = RedisViews(given, self.clock, splits)
        rebuilder = Rebuilder(self.clock, given, Drainer(self.clock, given.link))
        carrier = Carrier(self.clock, gate, rebuilder)
        return ShardedGate(gate, splits, views, carrier, ShardStock(self.clock, gate, views, carrier))

    def _suspect(self, sku_id: str, why: str) -> None:
        self.suspected.append((sku_id, why))
        self.reconciler.suspect(sku_id, why)

    async def gate_pool(self, sku_id: str) -> GatePool:
        found = await self.views.pool(sku_id)
        assert found is not None
        return found

    async def position(self, sku_id: str) -> Position | None:
        return await self.database.read(lambda c: position(c, sku_id))

    async def drain(self, sku_id: str) -> None:
        at = await self.position(sku_id)
        if at is not None:
            await self.drainer.drain_all(sku_id, at)

    async def books(self, sku_id: str) -> Books:
        """As the ledger has them once it has read the whole journal."""
        await self.drain(sku_id)
        return await read_books(self.database, sku_id)

    async def counters(self, sku_id: str) -> Counters:
        return await self.database.read(lambda c: counters_of(c, sku_id))

    async def close(self) -> None:
        """The ledger belongs to whoever opened it."""
        await self.link.close()
