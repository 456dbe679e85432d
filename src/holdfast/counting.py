"""What is counted of each pool, for whoever watches a sale: answers by outcome, how long they took, what returned.

Counted per batch in memory, and added to the ledger twice a second by each process that serves or works in the
background (teller.py), as differences to shared rows. So the sums are those of all processes on all machines, and
survive restarts. What a process counted in its last half second is lost if it is killed; nothing is decided by these.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock

from holdfast.domain.shards import whole_of
from holdfast.domain.state import Event

# The pool of what concerns no pool but the whole server.
SERVER = ""
# Upper bounds of how long an answer took; what takes longer is counted beyond the last.
BOUNDS_MS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000, 1_500, 2_000, 3_000, 5_000)
# So many of a batch tell how long all of it took: it was waited for in the order in which it is looked at.
SAMPLES = 8
TOLD, TOOK, RETURNED = "told.", "took.", "returned."
_RETURNS = {f"reservation.{status}": f"{RETURNED}{status}" for status in ("expired", "cancelled", "failed")}

_counts: Counter[tuple[str, str]] = Counter()
# Batches are decided on the event loop, and written on another thread.
_lock = Lock()


def count(sku_id: str, name: str, number: int = 1) -> None:
    with _lock:
        _counts[sku_id, name] += number


def count_told(sku_id: str, outcomes: Iterable[tuple[str, int]]) -> None:
    for outcome, number in outcomes:
        count(sku_id, TOLD + outcome, number)


def count_waits(sku_id: str, since: Sequence[float], now: float) -> None:
    """`since` when each of a batch has waited, the longest first."""
    step = max(len(since) // SAMPLES, 1)
    for waiting in since[::step]:
        count(sku_id, f"{TOOK}{bisect_left(BOUNDS_MS, (now - waiting) * 1000)}", step)


def count_returns(sku_id: str, events: Iterable[Event]) -> None:
    returned: Counter[str] = Counter()
    for event in events:
        if event.type in _RETURNS:
            returned[_RETURNS[event.type]] += event.quantity or 0
    for name, units in returned.items():
        count(whole_of(sku_id), name, units)


def take() -> dict[tuple[str, str], int]:
    """What was counted since the last time, by pool and name."""
    with _lock:
        taken = dict(_counts)
        _counts.clear()
        return taken


def put_back(taken: Mapping[tuple[str, str], int]) -> None:
    with _lock:
        _counts.update(taken)
