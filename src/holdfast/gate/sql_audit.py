"""Whether the ledger is consistent: the row of a pool against its reservations.

Where the database is the gate, there is nothing else to check. A ledger that contradicts itself is reported and left
unchanged, because the repair needs an operator.
"""

from collections.abc import Mapping
from time import monotonic

from holdfast.gate.audit import PoolReport
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.audit import LedgerPool, stored_and_counted
from holdfast.ledger.stock.drift import record_drift

# Reading all reservations costs the ledger a scan, and blocks Redis for a moment.
AUDIT_INTERVAL_S = 30.0


class SqlAudit:
    interval_s = AUDIT_INTERVAL_S
    is_undecided = False

    def __init__(self, database: Database) -> None:
        self._database = database
        self._audited: dict[str, float] = {}
        self._contradicted: set[str] = set()

    async def check(
        self, sku_id: str, ledger: LedgerPool, now: int, reason: str | None, *, thorough: bool
    ) -> PoolReport:
        is_due = self.is_due(sku_id, thorough=thorough)
        return PoolReport(sku_id, now, await self.contradiction(sku_id) if is_due else None, ledger)

    async def check_split_pools(self, reports: Mapping[str, PoolReport], now: int) -> dict[str, PoolReport]:
        return {}

    def is_due(self, sku_id: str, *, thorough: bool) -> bool:
        """Whether to read the reservations of a pool now."""
        now = monotonic()
        if not thorough and now - self._audited.get(sku_id, 0.0) <= AUDIT_INTERVAL_S:
            return False
        self._audited[sku_id] = now
        return True

    async def contradiction(self, sku_id: str) -> str | None:
        stored, counted = await self._database.read(lambda c: stored_and_counted(c, sku_id))
        if stored == counted:
            self._contradicted.discard(sku_id)
            return None
        if sku_id not in self._contradicted:
            # Report once, not at every check.
            await self._database.write(lambda c: record_drift(c, self._database, sku_id))
            self._contradicted.add(sku_id)
        return "ledger_contradiction"
