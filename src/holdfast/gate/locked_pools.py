"""Pools whose lock timed out, because another server is lost or slow, or because an operator has locked the table."""

from collections.abc import Callable
from time import monotonic

from holdfast.ledger.engine.limits import LockLimits

# A batch holds the lock for some milliseconds.
BATCH = LockLimits(hold_ms=2_000)
# Once a pool is known to be locked, each batch only checks briefly whether it still is.
RETRY = LockLimits(wait_ms=250, hold_ms=2_000)
# How long a pool is remembered without another try.
REMEMBERED_S = 10.0


class LockedPools:
    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._failed_at: dict[str, float] = {}

    def add(self, sku_id: str) -> None:
        self._failed_at = {name: at for name, at in self._failed_at.items() if self._is_recent(at)}
        self._failed_at[sku_id] = self._now()

    def discard(self, sku_id: str) -> None:
        self._failed_at.pop(sku_id, None)

    def names(self) -> list[str]:
        return sorted(name for name, at in self._failed_at.items() if self._is_recent(at))

    def limits(self, sku_id: str) -> LockLimits:
        return RETRY if sku_id in self._failed_at else BATCH

    def _is_recent(self, at: float) -> bool:
        return self._now() - at < REMEMBERED_S
