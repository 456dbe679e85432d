"""Pools whose next batches go straight to a transaction, because a recent attempt without one had to fall back."""

# Batches of a pool. If some buyers return, most batches include one, and this limits the cost to one extra wait in four
# batches; if none do, working without a transaction saves most of the round trips.
SKIPPED_AFTER_FAILURE = 3
# Beyond this many pools, all entries are dropped.
POOLS_MAX = 10_000


class SkippedPools:
    def __init__(self) -> None:
        self._left: dict[str, int] = {}

    def add(self, sku_id: str) -> None:
        if len(self._left) >= POOLS_MAX:
            self._left.clear()
        self._left[sku_id] = SKIPPED_AFTER_FAILURE

    def skip(self, sku_id: str) -> bool:
        """Whether to skip the next batch, which counts as one of the skipped ones."""
        left = self._left.get(sku_id, 0)
        if left:
            self._left[sku_id] = left - 1
        return left > 0
