"""Whether arrival order was kept: two measures, and one strict rule.

`in_order` is the share of all pairs in which the earlier arrival was served first (1: a queue; ½: a random draw);
`displacement` is how many places people moved, as a share of the queue length. These two are measures only, because
simultaneous arrivals may get either place. The rule: a buyer who had their response before another buyer sent their
request is ahead of them.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct


class Fairness(Struct, frozen=True):
    served: int
    in_order: float
    displacement_p50: float
    displacement_p99: float


def fairness(came_and_served: Iterable[tuple[float, float]]) -> Fairness | None:
    """From (arrival, service) times; None if there are fewer than two."""
    pairs = sorted(came_and_served)
    count = len(pairs)
    if count < 2:
        return None
    ranks = ranks_of([served for _, served in pairs])
    moved = sorted(abs(rank - place) / count for place, rank in enumerate(ranks))
    out_of_order = inversions(ranks) / (count * (count - 1) / 2)
    return Fairness(count, round(1 - out_of_order, 4), round(moved[count // 2], 4), round(moved[int(count * 0.99)], 4))


def ranks_of(values: Sequence[float]) -> list[int]:
    """Equal values keep their order."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    for rank, index in enumerate(order):
        ranks[index] = rank
    return ranks


def inversions(ranks: Sequence[int]) -> int:
    """The number of pairs in the wrong order: each merge of two sorted halves counts those between them."""
    parts, wrong = [[rank] for rank in ranks], 0
    while len(parts) > 1:
        merged = []
        for left, right in zip(parts[::2], parts[1::2], strict=False):
            wrong += _between(left, right)
            # Python's sort merges two sorted runs in linear time.
            merged.append(sorted(left + right))
        parts = merged + ([parts[-1]] if len(parts) % 2 else [])
    return wrong


def _between(left: list[int], right: list[int]) -> int:
    wrong = passed = 0
    for rank in right:
        while passed < len(left) and left[passed] <= rank:
            passed += 1
        wrong += len(left) - passed
    return wrong


class QueueEntry(Struct, frozen=True):
    """A place, and the interval within which it must have been assigned."""

    who: str
    place: int
    asked_at: float
    answered_at: float


def overtaken(queue: Iterable[QueueEntry]) -> list[tuple[str, str]]:
    """Pairs of a buyer and somebody ahead of them who sent their request only after the buyer had a place; one per
    buyer."""
    found: list[tuple[str, str]] = []
    latest: QueueEntry | None = None
    for entry in sorted(queue, key=lambda one: one.place):
        if latest is not None and entry.answered_at < latest.asked_at:
            found.append((entry.who, latest.who))
        if latest is None or entry.asked_at > latest.asked_at:
            latest = entry
    return found
