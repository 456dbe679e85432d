"""What coming in costs: how much work a browser has to do, in attempts of which each takes about the same time.

The price follows demand. As long as no more people ask per second than the room lets in, it is what the sale says; with
twice as many it is twice as high, and so on, up to a cap that a phone of some years pays in under two seconds. So a
crowd of people hardly notices, and whoever wants to join ten thousand times pays ten thousand times, at the hours when
it matters most. It is a price and not a wall: it keeps out nobody who is willing to pay it.
"""

from math import exp

# Each attempt is this many rounds of PBKDF2 with SHA-256: long enough that a browser spends its time on the work and
# not on asking for it, short enough that making a challenge costs the server a fraction of a millisecond.
ROUNDS = 500
# A million rounds. Phones do at least a million in a second.
MOST_ATTEMPTS = 2_000
# Demand is what was asked for within about this long.
MEMORY_S = 5.0


class Demand:
    """How many ask per second, by an average that forgets."""

    def __init__(self) -> None:
        self._weight = 0.0
        self._at = 0.0

    def note(self, now_s: float) -> float:
        """One more asks; gives how many do per second."""
        self._weight = self._weight * exp((self._at - now_s) / MEMORY_S) + 1.0
        self._at = now_s
        return self._weight / MEMORY_S


def attempts_for(cost: int, asked_per_second: float, rate_per_second: int) -> int:
    crowding = max(1.0, asked_per_second / rate_per_second)
    return min(MOST_ATTEMPTS, max(1, round(cost * crowding)))
