"""Whether a pool in Redis agrees with the ledger; if not, it is rebuilt from the ledger.

The model. Five conditions must hold in addition to the ledger's own checks: the pool exists, open, under the ledger's
epoch; it is not behind what the ledger has read of its journal; the journal continues where the ledger stopped; once
the ledger has read all of it, both have the same counts; and the journal has confirmed every claim. Within Redis, the
keys of a pool must be as long as its manifest says, and its holds must add up to its counts (`upkeep.py`).

What happens when it fails. The ledger is authoritative, and the pool is rebuilt. Conditions that come and go in normal
operation (an entry in transit, a rebuild by another process) count only if a second check finds them again.

A pool whose sale was closed hours ago is dropped from Redis; its next command loads it again.
"""

from collections.abc import Mapping
from time import monotonic

import structlog
from sqlalchemy import Connection

from holdfast.domain.stock.shards import is_shard, shard_number, whole_of, whole_pool
from holdfast.gate.audit import GatePool, PoolReport
from holdfast.gate.redis.client import RedisClient
from holdfast.gate.redis.encoding import Keys, decode_entry
from holdfast.gate.redis.link.durability import DurabilityWatch
from holdfast.gate.redis.link.replies import SlotMigrating
from holdfast.gate.redis.rebuilder import Rebuilder
from holdfast.gate.redis.shards.audit import ShardAudit
from holdfast.gate.redis.upkeep import Upkeep
from holdfast.gate.redis.views import RedisViews
from holdfast.gate.sql_audit import SqlAudit
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.audit import LedgerPool, counts_of
from holdfast.ledger.stock.batch import Position
from holdfast.ledger.stock.journal import claimed_units, follows
from holdfast.ledger.stock.parked_entries import REASON as JOURNAL_POISONED
from holdfast.ledger.stock.transfers import expected_transfers

log = structlog.get_logger()

INTERVAL_S = 0.5
# Redis configurations under which no pool may be open.
UNSAFE = frozenset({"redis_may_evict", "redis_not_synced"})
# A working drainer needs tens of milliseconds.
STALLED_AFTER_S = 2.0
# Longer than any process takes from closing a pool to the next step of rebuilding it.
STUCK_AFTER_S = 3.0
# Long enough for late payments, refunds and questions about a sale to be over.
RETIRED_AFTER_MS = 6 * 3_600_000


class RedisAudit:
    interval_s = INTERVAL_S

    def __init__(
        self,
        database: Database,
        client: RedisClient,
        views: RedisViews,
        rebuilder: Rebuilder,
        shards: ShardAudit,
        watch: DurabilityWatch | None = None,
    ) -> None:
        self._database = database
        self._client = client
        self._views = views
        self._rebuilder = rebuilder
        self._shards = shards
        self._ledger = SqlAudit(database)
        self._upkeep = Upkeep(client, database)
        self._watch = watch
        self._closed: set[str] = set()
        self._seen_before: dict[str, tuple[str, Position, float]] = {}
        self._drained: dict[str, tuple[Position, float]] = {}

    @property
    def is_undecided(self) -> bool:
        return bool(self._seen_before)

    async def check(
        self, sku_id: str, ledger: LedgerPool, now: int, reason: str | None, *, thorough: bool
    ) -> PoolReport:
        is_due = self._ledger.is_due(sku_id, thorough=thorough)
        finding = await self._ledger.contradiction(sku_id) if is_due else None
        is_dropped = ledger.at.epoch == 0
        if is_dropped and not is_due and sku_id not in self._seen_before:
            return PoolReport(sku_id, now, finding, ledger)
        try:
            gate = await self._views.pool(sku_id)
        except SlotMigrating:
            return PoolReport(sku_id, now, finding or "slot_migrating", ledger)
        if is_dropped:
            return PoolReport(sku_id, now, finding or await self._returned(sku_id, ledger, gate), ledger)
        unsafe = None if self._watch is None else await self._watch.finding()
        if unsafe in UNSAFE:
            await self._close(sku_id, gate)
            return PoolReport(sku_id, now, finding or unsafe, ledger, gate)
        fault = await self._fault(sku_id, ledger, gate, reason)
        if fault is None and gate is not None and sku_id not in self._seen_before:
            fault = await self._upkeep.contradiction(sku_id, is_due=is_due, thorough=thorough)
            await self._upkeep.sweep(sku_id, gate.at.epoch, thorough=thorough)
        if fault is not None:
            await self._rebuilder.rebuild(sku_id, ledger.at, fault)
        elif gate is not None and _is_of_no_use(sku_id, ledger, gate, now):
            await self._rebuilder.retire(sku_id, ledger.at)
        stalled = "journal_stalled" if self._is_stalled(sku_id, ledger, gate) else None
        return PoolReport(sku_id, now, finding or fault or stalled or unsafe, ledger, gate)

    async def _returned(self, sku_id: str, ledger: LedgerPool, gate: GatePool | None) -> str | None:
        """An old copy of Redis may restore a dropped pool, and processes that knew it then would sell from it. Under a
        new epoch they notice; then it is dropped again."""
        if gate is None:
            self._seen_before.pop(sku_id, None)
            return None
        fault = self._confirmed(sku_id, "epoch", gate.at, None)
        if fault is not None:
            await self._rebuilder.rebuild(sku_id, ledger.at, fault)
        return fault

    async def _close(self, sku_id: str, gate: GatePool | None) -> None:
        """Nothing that Redis may evict or lose may be granted. Once Redis is safe again, the pool is rebuilt."""
        self._closed.add(sku_id)
        if gate is not None and gate.is_open:
            await self._client.call_function("holdfast_close_v2", [Keys(sku_id).pool], [gate.at.epoch])

    async def check_split_pools(self, reports: Mapping[str, PoolReport], now: int) -> dict[str, PoolReport]:
        await self._shards.deliver_left_over()
        found: dict[str, PoolReport] = {}
        for sku_id, sums in (await self._shards.sums()).items():
            shards = _shards_of(sku_id, reports)
            pools = [shard.pool for shard in shards]
            await self._shards.align_rules(sku_id, pools)
            finding = await self._shards.finding(sku_id, sums)
            if finding is not None:
                log.warning("pool_inconsistent", sku_id=sku_id, finding=finding)
            finding = finding or next((shard.finding for shard in shards if shard.finding), None)
            ledger = LedgerPool(Position(), now, whole_pool(sku_id, sums.total, pools), 0)
            found[sku_id] = PoolReport(sku_id, now, finding, ledger, None, sums.in_transfer, shards)
        return found

    async def _fault(self, sku_id: str, ledger: LedgerPool, gate: GatePool | None, reason: str | None) -> str | None:
        """A certain fault of a pool."""
        if gate is None:
            return self._confirmed(sku_id, "missing", ledger.at, reason)
        if gate.state == "torn":
            return "torn"
        if gate.at.epoch != ledger.at.epoch:
            return self._confirmed(sku_id, "epoch", ledger.at, reason)
        if gate.at.seq < ledger.at.seq:
            return "stale"
        if not gate.is_open and sku_id in self._closed:
            self._closed.discard(sku_id)
            return "redis_was_unsafe"
        if not gate.is_open:
            return self._confirmed(sku_id, "stuck", await self._loaded(sku_id, gate), None, after_s=STUCK_AFTER_S)
        if ledger.is_poisoned:
            return JOURNAL_POISONED
        if reason in ("claim_refused", "hold_lost"):
            return reason
        return await self._difference(sku_id, ledger, gate)

    async def _difference(self, sku_id: str, ledger: LedgerPool, gate: GatePool) -> str | None:
        """How an open pool differs from the ledger."""
        if gate.at == ledger.at and counts_of(gate.pool) != ledger.counts:
            return self._confirmed(sku_id, "drift", gate.at, None)
        if gate.at == ledger.at and ledger.unconfirmed_claims:
            return self._confirmed(sku_id, "claim_unheard", gate.at, None)
        if gate.at.seq > ledger.at.seq and await self._has_gap(sku_id, ledger):
            return self._confirmed(sku_id, "journal_gap", ledger.at, None)
        self._seen_before.pop(sku_id, None)
        return None

    def _is_stalled(self, sku_id: str, ledger: LedgerPool, gate: GatePool | None) -> bool:
        """Whether entries wait and the ledger has read none for a while: no drainer runs, or it fails."""
        at, since = self._drained.get(sku_id, (None, 0.0))
        has_lag = gate is not None and gate.at.epoch == ledger.at.epoch and gate.at.seq > ledger.at.seq
        if at != ledger.at or not has_lag:
            self._drained[sku_id] = (ledger.at, monotonic())
            return False
        return monotonic() - since >= STALLED_AFTER_S

    async def _loaded(self, sku_id: str, gate: GatePool) -> Position:
        """The progress of a rebuild: one that advances is not stuck, however long it takes."""
        key = Keys(sku_id).pool
        [loads] = await self._client.call(key, ["HGET", key, "loads"])
        return Position(gate.at.epoch, int(loads or 0))

    def _confirmed(
        self, sku_id: str, fault: str, at: Position, reason: str | None, *, after_s: float = 0.0
    ) -> str | None:
        """Another process may be repairing it, so a fault counts if it was seen before, or if a caller reported it
        too."""
        seen = self._seen_before.get(sku_id)
        if seen is None or seen[:2] != (fault, at):
            self._seen_before[sku_id] = seen = (fault, at, monotonic())
            if reason != fault:
                return None
        return fault if monotonic() - seen[2] >= after_s else None

    async def _has_gap(self, sku_id: str, ledger: LedgerPool) -> bool:
        """The next entry is missing although later ones exist, or it does not follow from the ledger's position."""
        journal = Keys(sku_id).journal
        next_id = f"{ledger.at.epoch}-{ledger.at.seq + 1}"
        [found] = await self._client.call(journal, ["XRANGE", journal, next_id, next_id])
        entries = [decode_entry(sku_id, entry_id, payload) for entry_id, (_, payload) in found]

        def is_next(connection: Connection) -> bool:
            claimed = claimed_units(connection, sku_id)
            expected = expected_transfers(connection, sku_id, [entry.changes for entry in entries])
            return any(
                follows(entry, ledger.pool, ledger.decided_at, claimed) and expected.allows(entry.changes)
                for entry in entries
            )

        return not await self._database.read(is_next)


def _is_of_no_use(sku_id: str, ledger: LedgerPool, gate: GatePool, now: int) -> bool:
    """Whether the sale of this pool was closed hours ago, nobody uses the pool, and the ledger has all of it. Shards
    stay, because they are counted together."""
    rules, since = gate.pool.rules, now - RETIRED_AFTER_MS
    is_over = not rules.is_in_sale and rules.ends_at is not None and max(rules.ends_at, ledger.decided_at) <= since
    is_drained = gate.at == ledger.at and not gate.pool.held and not ledger.unconfirmed_claims
    return is_over and is_drained and gate.is_open and not is_shard(sku_id)


def _shards_of(sku_id: str, reports: Mapping[str, PoolReport]) -> tuple[PoolReport, ...]:
    found = [report for name, report in reports.items() if is_shard(name) and whole_of(name) == sku_id]
    return tuple(sorted(found, key=lambda report: shard_number(report.sku_id)))
