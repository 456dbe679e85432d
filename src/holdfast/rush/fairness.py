"""Was the order kept? Two measures of it, and one rule that must never be broken.

Of two people the one who came first should be served first. `in_order` is the share of all pairs of which that is so
(1: a line; ½: a draw by lot); `displacement` says by how many places people were moved, as a share of the line.

Both are measures, because whoever comes at the same moment may get either place. The rule has no such excuse: if one
had their answer before another had even asked, the first is in front.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from msgspec import Struct


class Fairness(Struct, frozen=True):
    served: int
    in_order: float
    displacement_p50: float
    displacement_p99: float


def fairness(came_and_served: Iterable[tuple[float, float]]) -> Fairness | None:
    """Of the moments at which each came and was served; None if that is too few to say."""
    pairs = sorted(came_and_served)
    count = len(pairs)
    if count < 2:
        return None
    ranks = ranks_of([served for _, served in pairs])
    moved = sorted(abs(rank - place) / count for place, rank in enumerate(ranks))
    out_of_order = inversions(ranks) / (count * (count - 1) / 2)
    return Fairness(count, round(1 - out_of_order, 4), round(moved[count // 2], 4), round(moved[int(count * 0.99)], 4))


def ranks_of(values: Sequence[float]) -> list[int]:
    """Equal values keep the order they stand in."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    for rank, index in enumerate(order):
        ranks[index] = rank
    return ranks


def inversions(ranks: Sequence[int]) -> int:
    """How many pairs stand the wrong way round."""
    seen: list[int] = []
    wrong = 0
    for number, rank in enumerate(ranks):
        wrong += number - bisect_left(seen, rank)
        insort(seen, rank)
    return wrong


class Stood(Struct, frozen=True):
    """Someone's place, and between which moments it must have been given."""

    who: str
    place: int
    asked_at: float
    answered_at: float


def overtakings(line: Iterable[Stood]) -> list[tuple[str, str]]:
    """Whoever stands behind somebody who asked only after they had their place already: each with one of those."""
    found: list[tuple[str, str]] = []
    latest: Stood | None = None
    for stood in sorted(line, key=lambda one: one.place):
        if latest is not None and stood.answered_at < latest.asked_at:
            found.append((stood.who, latest.who))
        if latest is None or stood.asked_at > latest.asked_at:
            latest = stood
    return found
