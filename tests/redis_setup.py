"""A gate in Valkey and its ledger, put together as the server does it, by a clock that the test sets."""

from holdfast.domain.stock.state import Counters
from holdfast.gate.audit import GatePool
from holdfast.gate.reconciler import Reconciler
from holdfast.gate.redis.audit import RedisAudit
from holdfast.gate.redis.client import RedisClient
from holdfast.gate.redis.drainer import Drainer
from holdfast.gate.redis.gate import RedisGate
from holdfast.gate.redis.link.port import RedisLink
from holdfast.gate.redis.link.redis_link import open_link
from holdfast.gate.redis.rebuilder import Rebuilder
from holdfast.gate.redis.shards.audit import ShardAudit
from holdfast.gate.redis.shards.gate import ShardedGate
from holdfast.gate.redis.shards.stock import ShardStock
from holdfast.gate.redis.shards.transfers import ShardTransfers
from holdfast.gate.redis.splits import Splits
from holdfast.gate.redis.views import RedisViews
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.batch import Position
from holdfast.ledger.stock.journal import position
from holdfast.ledger.stock.transfers import counters_of
from holdfast.testing.snapshot import LedgerSnapshot
from ledger_snapshot import read_ledger_snapshot
from set_clock import SetClock

# A busy machine may let Redis wait for its turn; an answer that comes too late is of unknown outcome.
LINK_TIMEOUT_S = 20.0


class RedisSetup:
    def __init__(self, database: Database, url: str, link: RedisLink | None = None) -> None:
        self.database = database
        self.clock = SetClock(database)
        self.link = link or open_link(url, timeout_s=LINK_TIMEOUT_S)
        self.client = RedisClient(self.link)
        self.drainer = Drainer(self.clock, self.client)
        self.rebuilder = Rebuilder(self.clock, self.client, self.drainer)
        self.reported: list[tuple[str, str]] = []
        self.splits = Splits(self.clock)
        self.views = RedisViews(self.client, self.clock, self.splits)
        gate = self.open_gate()
        transfers = ShardTransfers(self.clock, gate, self.rebuilder)
        stock = ShardStock(self.clock, gate, self.views, transfers)
        self.transfers = transfers
        self.shard_audit = ShardAudit(self.clock, gate, self.splits, transfers, stock)
        self.audit = RedisAudit(self.clock, self.client, self.views, self.rebuilder, self.shard_audit)
        self.reconciler = Reconciler(self.clock, self.audit)

    def open_gate(self, client: RedisClient | None = None, **limits: int) -> RedisGate:
        return RedisGate(client or self.client, self.clock, self.rebuilder, self._report_inconsistency, **limits)

    def open_sharded_gate(self, client: RedisClient | None = None) -> ShardedGate:
        """As another process would have it, with nothing known yet."""
        given = client or self.client
        splits, gate = Splits(self.clock), self.open_gate(given)
        views = RedisViews(given, self.clock, splits)
        rebuilder = Rebuilder(self.clock, given, Drainer(self.clock, given))
        transfers = ShardTransfers(self.clock, gate, rebuilder)
        return ShardedGate(gate, splits, views, transfers, ShardStock(self.clock, gate, views, transfers))

    def _report_inconsistency(self, sku_id: str, reason: str) -> None:
        self.reported.append((sku_id, reason))
        self.reconciler.report_inconsistency(sku_id, reason)

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

    async def snapshot(self, sku_id: str) -> LedgerSnapshot:
        """As the ledger has them once it has read the whole journal."""
        await self.drain(sku_id)
        return await read_ledger_snapshot(self.database, sku_id)

    async def counters(self, sku_id: str) -> Counters:
        return await self.database.read(lambda c: counters_of(c, sku_id))

    async def close(self) -> None:
        """The caller closes the ledger."""
        await self.link.close()
