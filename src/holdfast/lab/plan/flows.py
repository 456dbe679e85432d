"""Flows of people through a sale: delays, shares, and rates, in whole numbers.

If a share or a rate gives a fraction of a person, the fraction is carried over to the next step. So shares are exact in
the long run, and at any time everyone who went in is inside or has come out.

With `chance` set, small groups are drawn at random; large ones still follow the average.
"""

from collections import deque
from random import Random

# Floating-point sums may end up slightly below a whole number.
_ALMOST = 1e-6
# Rounds instead of truncating: a single person comes out in the middle of the interval, not at its end.
_HALF = 0.5
# Larger groups are close enough to their average, and drawing per person would be slow.
FEW = 40


class Delay:
    """People come out evenly spread between `least_s` and `most_s` after they went in, or within the given interval."""

    __slots__ = ("_changes", "_drawn", "_first", "_owed", "_rate", "_step_s", "_width", "chance", "inside")

    def __init__(self, step_s: float, least_s: float, most_s: float) -> None:
        self._step_s = step_s
        self._first = max(1, round(least_s / step_s))
        self._width = max(1, round((most_s - least_s) / step_s))
        self._changes = deque([0.0] * (self._first + self._width + 1))
        # The number of randomly drawn people who come out at each step.
        self._drawn = deque([0] * len(self._changes))
        self._rate, self._owed = 0.0, _HALF
        self.inside = 0
        self.chance: Random | None = None

    def put(self, count: int, within_s: float | None = None, after_s: float = 0.0) -> None:
        if not count:
            return
        self.inside += count
        width = self._width if within_s is None else min(max(1, round(within_s / self._step_s)), self._width)
        first = min(self._first - 1 + round(after_s / self._step_s), len(self._changes) - 1 - width)
        if self.chance is not None and count <= FEW:
            for _ in range(count):
                self._drawn[first + int(self.chance.random() * width)] += 1
            return
        self._changes[first] += count / width
        self._changes[first + width] -= count / width

    def step(self) -> int:
        """Returns the number of people who come out now."""
        if not self.inside:
            return 0
        self._rate += self._changes.popleft()
        self._changes.append(0.0)
        drawn = self._drawn.popleft()
        self._drawn.append(0)
        self._owed += self._rate
        out = max(int(self._owed + _ALMOST), 0)
        self._owed -= out
        out = min(out + drawn, self.inside)
        self.inside -= out
        if not self.inside:
            self._forget()
        return out

    def _forget(self) -> None:
        """Drops leftover fractions, because an empty delay is not stepped."""
        self._changes = deque([0.0] * len(self._changes))
        self._rate, self._owed = 0.0, _HALF


class Share:
    """A share of all who pass; it may change over time."""

    __slots__ = ("_carried", "chance", "part")

    def __init__(self, part: float) -> None:
        self.part = part
        self.chance: Random | None = None
        self._carried = _HALF

    def of(self, count: int) -> int:
        if self.chance is not None and count <= FEW and self.part <= 1:
            return sum(self.chance.random() < self.part for _ in range(count))
        self._carried += count * self.part
        whole = min(int(self._carried + _ALMOST), count) if self.part <= 1 else int(self._carried + _ALMOST)
        self._carried -= whole
        return whole


class Allowance:
    """A rate limit per step. Unused capacity does not carry over, except for a fraction of one."""

    __slots__ = ("_each", "_left")

    def __init__(self, step_s: float, per_second: float) -> None:
        self._each = per_second * step_s
        self._left = 0.0

    def renew(self) -> None:
        """Renews the allowance for the next step."""
        self._left = self._each + min(self._left, 1.0)

    def take(self, wanted: int) -> int:
        taken = min(wanted, int(self._left + _ALMOST))
        self._left = max(self._left - taken, 0.0)
        return taken


class Ages:
    """The age of the oldest entry of a FIFO queue."""

    __slots__ = ("_came", "_left", "_since")

    def __init__(self) -> None:
        self._came = self._left = 0
        self._since: deque[tuple[int, float]] = deque()

    def put(self, count: int, at_s: float) -> None:
        if count:
            self._came += count
            self._since.append((self._came, at_s))

    def take(self, count: int) -> None:
        self._left += count
        while self._since and self._since[0][0] <= self._left:
            self._since.popleft()

    def of_oldest(self, at_s: float) -> float:
        return at_s - self._since[0][1] if self._since else 0.0
