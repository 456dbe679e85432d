"""Whole people on their way through a sale: after a while, in shares, and as many as there is room for.

Nobody is cut in two. Where a share or a rate would make a fraction of a person, the fraction is carried on to the next
step, so that in the long run shares are exact, and at any time everyone who went in is inside or has come out.

Where a `chance` is given, it decides for each of a few; many come out as they do on average all the same.
"""

from collections import deque
from random import Random

# Sums of fractions come out a little below the whole number that they make.
_ALMOST = 1e-6
# Rounded and not cut off: someone who is alone comes out in the middle of the time it may take, and not at its end.
_HALF = 0.5
# So many together are close enough to their average, and to draw for each of a thousand takes its time.
FEW = 40


class Delay:
    """Whoever goes in comes out after between `least_s` and `most_s`, evenly spread; or sooner, if said with them."""

    __slots__ = ("_changes", "_drawn", "_first", "_owed", "_rate", "_step_s", "_width", "chance", "inside")

    def __init__(self, step_s: float, least_s: float, most_s: float) -> None:
        self._step_s = step_s
        self._first = max(1, round(least_s / step_s))
        self._width = max(1, round((most_s - least_s) / step_s))
        self._changes = deque([0.0] * (self._first + self._width + 1))
        # Of those for whom chance decided, how many come out at each step.
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
        """Who comes out now."""
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
        """What is left of fractions is nobody's; and nothing has to be moved on while nobody is inside."""
        self._changes = deque([0.0] * len(self._changes))
        self._rate, self._owed = 0.0, _HALF


class Share:
    """This part of all that come by; it may change on the way."""

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
    """So much per second, for whoever asks first in a step. What is not used is not kept, but for a part of one."""

    __slots__ = ("_each", "_left")

    def __init__(self, step_s: float, per_second: float) -> None:
        self._each = per_second * step_s
        self._left = 0.0

    def renew(self) -> None:
        """For the next step."""
        self._left = self._each + min(self._left, 1.0)

    def take(self, wanted: int) -> int:
        taken = min(wanted, int(self._left + _ALMOST))
        self._left = max(self._left - taken, 0.0)
        return taken


class Ages:
    """Since when those wait who are served in the order in which they came."""

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
