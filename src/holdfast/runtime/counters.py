"""Counters of each pool, for the live view of a sale: answers by outcome, how long they took, units returned.

They are counted per batch in memory. Each process adds its increments to shared rows in the ledger twice a second
(`ledger/sales/counter_flusher.py`), so the sums are those of all processes on all machines, and survive restarts. A
process that is killed loses its last half second; no decision depends on these counters.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock

# The key of counters that concern no pool but the whole server.
SERVER = ""
# Upper bounds of how long an answer took. Longer ones are counted beyond the last.
BOUNDS_MS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000, 1_500, 2_000, 3_000, 5_000)
# A batch is in arrival order, so a sample of this many stands for all of it.
SAMPLES = 8
TOLD, TOOK, RETURNED = "told.", "took.", "returned."

_counts: Counter[tuple[str, str]] = Counter()
# Batches are counted on the event loop and, where a writer thread stores them, on that thread.
_lock = Lock()


def count(sku_id: str, name: str, number: int = 1) -> None:
    with _lock:
        _counts[sku_id, name] += number


def count_outcomes(sku_id: str, outcomes: Iterable[tuple[str, int]]) -> None:
    for outcome, number in outcomes:
        count(sku_id, TOLD + outcome, number)


def count_waits(sku_id: str, since: Sequence[float], now: float) -> None:
    """`since` is when each item of a batch arrived, the oldest first."""
    step = max(len(since) // SAMPLES, 1)
    for waiting in since[::step]:
        count(sku_id, f"{TOOK}{bisect_left(BOUNDS_MS, (now - waiting) * 1000)}", step)


def take() -> dict[tuple[str, str], int]:
    """The counts since the last call, by pool and name."""
    with _lock:
        taken = dict(_counts)
        _counts.clear()
        return taken


def put_back(taken: Mapping[tuple[str, str], int]) -> None:
    with _lock:
        _counts.update(taken)
