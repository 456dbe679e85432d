"""Continuously compares the gate with the ledger, and repairs what can be repaired safely.

What is compared depends on the engine (`GateAudit`): `sql_audit.py` where the database is the gate, `redis/audit.py`
where Redis is. A caller that finds an inconsistent pool reports it, which triggers the next check immediately.
"""

import asyncio
from collections.abc import Iterable
from time import monotonic

import structlog
from msgspec.structs import replace
from sqlalchemy import Connection

from holdfast.domain.stock.shards import is_shard
from holdfast.gate.audit import GateAudit, PoolReport
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.audit import LedgerPool, ledger_pools
from holdfast.ledger.stock.splits import names_of
from holdfast.runtime import metrics
from holdfast.runtime.agent import THOROUGH_PASS_S, Agent
from holdfast.runtime.log import log_failure

log = structlog.get_logger()

# Between two checks, where a finding is believed only if the second confirms it.
RECHECK_S = 0.5
# Pools that are checked at the same time: most of a check is waiting. They leave connections for buyers.
AT_ONCE = 3
# Reports that are older are renewed before they are shown.
FRESH_S = 5.0
# A confirm claims right after Redis grants it, and the journal follows within a second; this is far longer than both.
CLAIM_CONFIRMED_WITHIN_MS = 10_000


class Reconciler:
    def __init__(self, database: Database, audit: GateAudit) -> None:
        self._database = database
        self._audit = audit
        self._reported: dict[str, str] = {}
        self._wake = asyncio.Event()
        self._passed_at = float("-inf")
        self._renewing = asyncio.Lock()
        self.reports: dict[str, PoolReport] = {}

    def report_inconsistency(self, sku_id: str, reason: str) -> None:
        """A caller met a pool that does not answer as it should."""
        self._reported.setdefault(sku_id, reason)
        self._wake.set()

    def agent(self) -> Agent[dict[str, PoolReport]]:
        # Every refused caller reports, so one pass serves them all.
        least_s = RECHECK_S / 10
        return Agent(
            "reconciler",
            self.pass_once,
            self._audit.interval_s,
            wake=self._wake,
            least_rest_s=least_s,
            longest_pass_s=THOROUGH_PASS_S,
        )

    async def pass_once(self, *, thorough: bool = False) -> dict[str, PoolReport]:
        """Check every pool, and return the reports. A thorough pass ends with nothing left undecided."""
        found = await self._check_all(thorough=thorough)
        if thorough and self._audit.is_undecided:
            await asyncio.sleep(RECHECK_S)
            found = await self._check_all(thorough=thorough)
        return found

    async def fresh_reports(self) -> list[PoolReport]:
        """The last reports, or new ones if those are old. A report that could not be renewed is not trusted."""
        async with self._renewing:
            if monotonic() - self._passed_at > FRESH_S:
                await self.pass_once()
        newest = max((report.checked_at for report in self.reports.values()), default=0)
        return [self.judged(report, newest) for report in self.reports.values()]

    def judged(self, report: PoolReport, now: int) -> PoolReport:
        """The report, with a finding if it is too old to be current."""
        longest_ms = (2 * self._audit.interval_s + FRESH_S) * 1000
        is_overdue = report.finding is None and now - report.checked_at > longest_ms
        return replace(report, finding="check_overdue") if is_overdue else report

    async def _check_all(self, *, thorough: bool) -> dict[str, PoolReport]:
        now, found = await self._database.read(lambda c: self._ledger_pools(c, None))
        failed: dict[str, Exception] = {}
        turns = asyncio.Semaphore(AT_ONCE)

        async def check(sku_id: str, ledger: LedgerPool) -> None:
            async with turns:
                reason = self._reported.pop(sku_id, None)
                try:
                    await self._check(sku_id, ledger, now, reason, thorough=thorough)
                except Exception as exc:
                    # Its server may be down while those of the others are not.
                    failed[sku_id] = exc

        await asyncio.gather(*[check(sku_id, ledger) for sku_id, ledger in found.items()])
        split = await self._audit.check_split_pools(self.reports, now) if self._has_shards(found) else {}
        self.reports.update(split)
        if failed and (thorough or len(failed) == len(found)):
            raise next(iter(failed.values()))
        self._passed_at = monotonic()
        for sku_id, failure in failed.items():
            log_failure("pool_check_failed", failure, sku_id=sku_id)
        return {sku_id: self.reports[sku_id] for sku_id in sorted([*found, *split]) if sku_id not in failed}

    async def _check(
        self, sku_id: str, ledger: LedgerPool, now: int, reason: str | None, *, thorough: bool
    ) -> PoolReport:
        if self._database.guard.finding is None:
            report = await self._audit.check(sku_id, ledger, now, reason, thorough=thorough)
        else:
            # A repair by a ledger that went back would destroy the only evidence of what it lacks.
            report = PoolReport(sku_id, now, "ledger_went_back", ledger)
        self.reports[sku_id] = report
        if report.finding is not None:
            log.warning("pool_inconsistent", sku_id=sku_id, finding=report.finding)
        metrics.POOL_DRIFT.labels(sku_id).set(report.finding is not None)
        return report

    def _has_shards(self, found: Iterable[str]) -> bool:
        return self._database.guard.finding is None and any(map(is_shard, found))

    async def pools_of(self, sku_id: str) -> list[str]:
        """The pool of a SKU, or its shards."""
        return await self._database.read(lambda c: names_of(c, sku_id))

    async def examine(self, sku_id: str) -> PoolReport | None:
        """Check one pool, reservation by reservation; None if the ledger does not have it."""
        now, found = await self._database.read(lambda c: self._ledger_pools(c, sku_id))
        if not found:
            return None
        return await self._check(sku_id, found[sku_id], now, None, thorough=True)

    def _ledger_pools(self, connection: Connection, sku_id: str | None) -> tuple[int, dict[str, LedgerPool]]:
        now = self._database.now_ms(connection)
        return now, ledger_pools(connection, now - CLAIM_CONFIRMED_WITHIN_MS, sku_id)
