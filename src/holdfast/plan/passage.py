"""Whole people on their way through a sale: after a while, in shares, and as many as there is room for.

Nobody is cut in two. Where a share or a rate would make a fraction of a person, the fraction is carried on to the next
step, so that in the long run shares are exact, and at any time everyone who went in is inside or has come out.
"""

from collections import deque

# Sums of fractions come out a little below the whole number that they make.
_ALMOST = 1e-6
# Rounded and not cut off: someone who is alone comes out in the middle of the time it may take, and not at its end.
_HALF = 0.5


class Delay:
    """Whoever goes in comes out after between `least_s` and `most_s`, evenly spread; or sooner, if said with them."""

    __slots__ = ("_changes", "_first", "_owed", "_rate", "_step_s", "_width", "inside")

    def __init__(self, step_s: float, least_s: float, most_s: float) -> None:
        self._step_s = step_s
        self._first = max(1, round(least_s / step_s))
        self._width = max(1, round((most_s - least_s) / step_s))
        self._changes = deque([0.0] * (self._first + self._width + 1))
        self._rate, self._owed = 0.0, _HALF
        self.inside = 0

    def put(self, count: int, within_s: float | None = None) -> None:
        if count:
            self.inside += count
            width = self._width if within_s is None else min(max(1, round(within_s / self._step_s)), self._width)
            self._changes[self._first - 1] += count / width
            self._changes[self._first + width - 1] -= count / width

    def step(self) -> int:
        """Who comes out now."""
        self._rate += self._changes.popleft()
        self._changes.append(0.0)
        self._owed += self._rate
        out = min(int(self._owed + _ALMOST), self.inside)
        self._owed -= out
        self.inside -= out
        return out


class Share:
    """This part of all that come by; it may change on the way."""

    __slots__ = ("_carried", "part")

    def __init__(self, part: float) -> None:
        self.part = part
        self._carried = _HALF

    def of(self, count: int) -> int:
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
