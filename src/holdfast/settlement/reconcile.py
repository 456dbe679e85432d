"""Is what the gate believes what the ledger knows? Asked all the time, and mended where that is safe.

The model. Where the database is the gate, a pool's row must agree with its reservations. Where Redis is, five more
things must hold: the pool is there, open, under the ledger's epoch; it is not behind what the ledger has read of its
journal; the journal goes on where the ledger stopped; once the ledger has read all of it, both count the same; and
every claim was heard of. Within Redis, the holds must add up to what the pool says is held.

What happens when it fails. A pool in Redis that breaks any of these is rebuilt from the ledger, which is the judge.
What comes and goes in the normal course (an entry on its way, a rebuild by somebody else) is only believed when it is
still so at the next look. A ledger that contradicts itself is reported and left alone: that needs a person.
"""

import asyncio
from time import monotonic

import structlog
from msgspec import Struct
from sqlalchemy import Connection

from holdfast import metrics
from holdfast.domain.pool import Pool
from holdfast.domain.shards import is_shard, shard_number, whole_of, whole_pool
from holdfast.errors import EngineError
from holdfast.gate.encoding import Keys, decode, decode_entry
from holdfast.gate.functions import Functions
from holdfast.gate.redis_views import GatePool, RedisViews
from holdfast.ledger.audit import LedgerPool, counts_of, ledger_pools, said_and_counted
from holdfast.ledger.batch import Position
from holdfast.ledger.database import Database
from holdfast.ledger.drift import record_drift
from holdfast.ledger.journal import claimed_units, follows
from holdfast.ledger.splits import names_of
from holdfast.ledger.transfers import passage_of
from holdfast.settlement.rebuild import Rebuilder
from holdfast.settlement.shard_keeper import ShardKeeper

log = structlog.get_logger()

PASS_INTERVAL_S = 0.5
# Going through all reservations costs the ledger a scan, and Redis a moment in which it does nothing else.
AUDIT_INTERVAL_S = 30.0
AUDIT_HOLDS_MAX = 20_000
# A confirm claims right after Redis granted it, and the journal follows within a second; this is far beyond both.
CLAIM_HEARD_WITHIN_MS = 10_000
# Longer than anybody takes from closing a pool to the next step of rebuilding it.
STUCK_AFTER_S = 3.0


class PoolReport(Struct, frozen=True):
    """What was found at the last look. `finding` is None if all is well."""

    sku_id: str
    checked_at: int
    finding: str | None
    ledger: LedgerPool
    gate: GatePool | None = None
    on_its_way: int = 0
    """Units between the shards of a pool that is split."""
    shards: tuple["PoolReport", ...] = ()

    @property
    def pool(self) -> Pool:
        return self.ledger.pool if self.gate is None else self.gate.pool

    @property
    def journal_lag(self) -> int:
        """Entries of the journal that the ledger does not have yet."""
        own = 0 if self.gate is None else max(self.gate.at.seq - self.ledger.at.seq, 0)
        return own + sum(shard.journal_lag for shard in self.shards)


class RedisBooks(Struct, frozen=True):
    """What it takes to check and mend pools whose gate is Redis."""

    functions: Functions
    views: RedisViews
    rebuilder: Rebuilder
    keeper: ShardKeeper


class Reconciler:
    def __init__(self, database: Database, redis: RedisBooks | None = None) -> None:
        self._database = database
        self._redis = redis
        self._suspected: dict[str, str] = {}
        self._wake = asyncio.Event()
        self._before: dict[str, tuple[str, Position, float]] = {}
        self._audited: dict[str, float] = {}
        self._contradicted: set[str] = set()
        self.reports: dict[str, PoolReport] = {}

    def suspect(self, sku_id: str, why: str) -> None:
        """Somebody met a pool that does not answer as it should."""
        self._suspected.setdefault(sku_id, why)
        self._wake.set()

    async def run(self) -> None:
        while True:
            try:
                await self.pass_once()
            except EngineError as exc:
                log.warning("reconciler_pass_failed", error=str(exc))
            except Exception:
                log.exception("reconciler_pass_failed")
            await self._rest()

    async def _rest(self) -> None:
        try:
            await asyncio.wait_for(self._wake.wait(), PASS_INTERVAL_S if self._redis else AUDIT_INTERVAL_S)
        except TimeoutError:
            return
        self._wake.clear()
        # Whoever is refused tells us; once per pass is enough for all of them.
        await asyncio.sleep(PASS_INTERVAL_S / 10)

    async def pass_once(self, *, thorough: bool = False) -> dict[str, PoolReport]:
        """Look at every pool, mend what can be mended, and give what was found."""
        found = await self._look(thorough=thorough)
        if thorough and self._before:
            # Whoever asks for it wants to know now what is beyond doubt only at a second look.
            await asyncio.sleep(PASS_INTERVAL_S)
            found = await self._look(thorough=thorough)
        return found

    async def _look(self, *, thorough: bool) -> dict[str, PoolReport]:
        now, found = await self._database.read(lambda c: self._ledger_pools(c, None))
        failures: list[Exception] = []
        for sku_id, ledger in found.items():
            why = self._suspected.pop(sku_id, None)
            try:
                self.reports[sku_id] = await self._check(sku_id, ledger, now, why, thorough=thorough)
            except Exception as exc:
                # Its server may be down while those of the others are not.
                failures.append(exc)
                continue
            metrics.POOL_DRIFT.labels(sku_id).set(self.reports[sku_id].finding is not None)
        wholes = await self._check_shards(now) if any(map(is_shard, found)) else []
        if failures:
            raise failures[0]
        return {sku_id: self.reports[sku_id] for sku_id in sorted([*found, *wholes])}

    async def _check_shards(self, now: int) -> list[str]:
        """What is to be said of the pools that are split, beyond each of their shards; gives which they are."""
        assert self._redis is not None
        keeper = self._redis.keeper
        await keeper.deliver_left_over()
        wholes = await keeper.sums()
        for sku_id, of_sku in wholes.items():
            shards = self._shards_of(sku_id)
            pools_seen = [shard.pool for shard in shards]
            await keeper.align_rules(sku_id, pools_seen)
            finding = await keeper.finding(sku_id, of_sku)
            if finding is not None:
                log.warning("pool_at_odds", sku_id=sku_id, finding=finding)
            finding = finding or next((shard.finding for shard in shards if shard.finding), None)
            ledger = LedgerPool(Position(), now, whole_pool(sku_id, of_sku.total, pools_seen), 0)
            self.reports[sku_id] = PoolReport(sku_id, now, finding, ledger, None, of_sku.on_its_way, shards)
        return list(wholes)

    def _shards_of(self, sku_id: str) -> tuple[PoolReport, ...]:
        found = [report for name, report in self.reports.items() if is_shard(name) and whole_of(name) == sku_id]
        return tuple(sorted(found, key=lambda report: shard_number(report.sku_id)))

    async def pools_of(self, sku_id: str) -> list[str]:
        """The pool of a SKU, or its shards."""
        return await self._database.read(lambda c: names_of(c, sku_id))

    async def examine(self, sku_id: str) -> PoolReport | None:
        """One pool, reservation by reservation; None if the ledger has none by this name."""
        now, found = await self._database.read(lambda c: self._ledger_pools(c, sku_id))
        if not found:
            return None
        report = self.reports[sku_id] = await self._check(sku_id, found[sku_id], now, None, thorough=True)
        return report

    def _ledger_pools(self, connection: Connection, sku_id: str | None) -> tuple[int, dict[str, LedgerPool]]:
        now = self._database.now_ms(connection)
        return now, ledger_pools(connection, now - CLAIM_HEARD_WITHIN_MS, sku_id)

    async def _check(self, sku_id: str, ledger: LedgerPool, now: int, why: str | None, *, thorough: bool) -> PoolReport:
        is_audit = thorough or monotonic() - self._audited.get(sku_id, 0.0) > AUDIT_INTERVAL_S
        if is_audit:
            self._audited[sku_id] = monotonic()
        finding = await self._ledger_contradiction(sku_id) if is_audit else None
        gate: GatePool | None = None
        if self._redis is not None and ledger.at.epoch > 0:
            gate = await self._redis.views.pool(sku_id)
            fault = await self._fault(sku_id, ledger, gate, why, is_audit=is_audit)
            if fault is not None:
                await self._redis.rebuilder.rebuild(sku_id, ledger.at, fault)
            finding = finding or fault
        if finding is not None:
            log.warning("pool_at_odds", sku_id=sku_id, finding=finding)
        return PoolReport(sku_id, now, finding, ledger, gate)

    async def _ledger_contradiction(self, sku_id: str) -> str | None:
        said, counted = await self._database.read(lambda c: said_and_counted(c, sku_id))
        if said == counted:
            self._contradicted.discard(sku_id)
            return None
        if sku_id not in self._contradicted:
            # Told once, not at every look; what is at odds in Redis is told of by whoever rebuilds it.
            await self._database.write(lambda c: record_drift(c, self._database, sku_id))
            self._contradicted.add(sku_id)
        return "ledger_contradiction"

    # --- Redis

    async def _fault(
        self, sku_id: str, ledger: LedgerPool, gate: GatePool | None, why: str | None, *, is_audit: bool
    ) -> str | None:
        """What is wrong with a pool in Redis, if it is beyond doubt."""
        if gate is None:
            return self._beyond_doubt(sku_id, "missing", ledger.at, why)
        if gate.at.epoch != ledger.at.epoch:
            return self._beyond_doubt(sku_id, "epoch", ledger.at, why)
        if gate.at.seq < ledger.at.seq:
            return "stale"
        if not gate.is_open:
            return self._beyond_doubt(sku_id, "stuck", await self._loaded(sku_id, gate), None, after_s=STUCK_AFTER_S)
        if why in ("claim_refused", "hold_lost"):
            return why
        if gate.at == ledger.at and counts_of(gate.pool) != ledger.counts:
            return self._beyond_doubt(sku_id, "drift", gate.at, None)
        if gate.at == ledger.at and ledger.unheard_claims:
            return self._beyond_doubt(sku_id, "claim_unheard", gate.at, None)
        if gate.at.seq > ledger.at.seq and await self._has_gap(sku_id, ledger):
            return self._beyond_doubt(sku_id, "journal_gap", ledger.at, None)
        self._before.pop(sku_id, None)
        return await self._audit(sku_id) if is_audit else None

    async def _loaded(self, sku_id: str, gate: GatePool) -> Position:
        """How far the rebuild of a pool is: one that goes on is not stuck, however long it takes."""
        assert self._redis is not None
        key = Keys(sku_id).pool
        [loads] = await self._redis.functions.link.call(key, ["HGET", key, "loads"])
        return Position(gate.at.epoch, int(loads or 0))

    def _beyond_doubt(
        self, sku_id: str, what: str, at: Position, why: str | None, *, after_s: float = 0.0
    ) -> str | None:
        """Somebody else may be in the middle of mending it: believed if it was so before, or a caller met it too."""
        seen = self._before.get(sku_id)
        if seen is None or seen[:2] != (what, at):
            self._before[sku_id] = seen = (what, at, monotonic())
            if why != what:
                return None
        return what if monotonic() - seen[2] >= after_s else None

    async def _has_gap(self, sku_id: str, ledger: LedgerPool) -> bool:
        """The next entry is not there, although later ones were made; or it goes on from something else."""
        assert self._redis is not None
        journal = Keys(sku_id).journal
        next_id = f"{ledger.at.epoch}-{ledger.at.seq + 1}"
        [found] = await self._redis.functions.link.call(journal, ["XRANGE", journal, next_id, next_id])
        entries = [decode_entry(sku_id, entry_id, payload) for entry_id, (_, payload) in found]

        def is_next(connection: Connection) -> bool:
            claimed = claimed_units(connection, sku_id)
            passage = passage_of(connection, sku_id, [entry.changes for entry in entries])
            return any(
                follows(entry, ledger.pool, ledger.decided_at, claimed) and passage.allows(entry.changes)
                for entry in entries
            )

        return not await self._database.read(is_next)

    async def _audit(self, sku_id: str) -> str | None:
        assert self._redis is not None
        keys = Keys(sku_id)
        names = [keys.pool, keys.holds, keys.deadlines]
        match decode(await self._redis.functions.call("holdfast_audit_v1", names, [AUDIT_HOLDS_MAX])):
            case [_, _, held, active, units, active_holds, deadlines]:
                if (held, active, active) != (units, active_holds, deadlines):
                    return "gate_contradiction"
        return None
