"""Pools whose next batches go to a transaction at once, because one just tried to do without and had to fall back."""

# Batches of a pool. Where some buyers return, most batches include one, and this limits the cost to one extra wait in
# four batches; where none do, doing without saves most of the round trips.
SKIPPED_AFTER_FAILURE = 3
# Beyond this many, all are forgotten.
POOLS_MAX = 10_000


class SkippedPools:
    def __init__(self) -> None:
        self._left: dict[str, int] = {}

    def add(self, sku_id: str) -> None:
        if len(self._left) >= POOLS_MAX:
            self._left.clear()
        self._left[sku_id] = SKIPPED_AFTER_FAILURE

    def skip(self, sku_id: str) -> bool:
        """Whether the next batch is one of those; it counts as one."""
        left = self._left.get(sku_id, 0)
        if left:
            self._left[sku_id] = left - 1
        return left > 0
