"""Garbage collection for a server: requests leave almost no cycles behind."""

import gc

# Looking for cycles this rarely still keeps memory flat.
_COLLECT_AFTER = 50_000


def tune_gc() -> None:
    """Freeze what is loaded now: collecting it again and again took a quarter of the CPU time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 100)
