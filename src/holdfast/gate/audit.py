"""How a gate is compared with the ledger: one `GateAudit` per engine, and what it reports."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from holdfast.domain.stock.pool import Pool
from holdfast.ledger.stock.audit import LedgerPool
from holdfast.ledger.stock.batch import Position
from holdfast.ledger.stock.queries import PoolView


class GatePool(Struct, frozen=True):
    """A pool in a gate outside the ledger."""

    now: int
    at: Position
    state: str
    pool: Pool
    due_units: int
    due_reservations: int
    next_return_at: int | None

    @property
    def is_open(self) -> bool:
        return self.state == "open"

    def view(self) -> PoolView:
        """Overdue holds count as free, as far as the next reserve would return them."""
        current = replace(
            self.pool,
            held=self.pool.held - self.due_units,
            active_reservations=self.pool.active_reservations - self.due_reservations,
        )
        return PoolView(current, self.next_return_at if current.available == 0 else None)


class PoolReport(Struct, frozen=True):
    """The result of the last check. `finding` is None if gate and ledger agree."""

    sku_id: str
    checked_at: int
    finding: str | None
    ledger: LedgerPool
    gate: GatePool | None = None
    in_transfer: int = 0
    """Units between the shards of a pool that is split."""
    shards: tuple["PoolReport", ...] = ()

    @property
    def pool(self) -> Pool:
        return self.ledger.pool if self.gate is None else self.gate.pool

    @property
    def journal_lag(self) -> int:
        """Journal entries that the ledger does not have yet."""
        own = 0 if self.gate is None else max(self.gate.at.seq - self.ledger.at.seq, 0)
        return own + sum(shard.journal_lag for shard in self.shards)


class GateAudit(Protocol):
    @property
    def interval_s(self) -> float:
        """How often every pool is checked."""

    @property
    def is_undecided(self) -> bool:
        """Whether some findings are believed only if a second check confirms them."""

    async def check(
        self, sku_id: str, ledger: LedgerPool, now: int, reason: str | None, *, thorough: bool
    ) -> PoolReport:
        """Check one pool and repair what can be repaired safely. `reason`: the report of a caller, if any; `thorough`:
        reservation by reservation, now."""

    async def check_split_pools(self, reports: Mapping[str, PoolReport], now: int) -> dict[str, PoolReport]:
        """Check the pools that are split, as a whole, given the reports of their shards."""
