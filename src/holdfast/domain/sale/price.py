"""The cost of joining: how much proof of work a browser has to do, in attempts of about equal duration.

The price follows demand, measured in solved challenges; requests for challenges are free, so they do not count. While
proofs arrive no faster than the room admits people, the sale's own cost applies. With twice as many it doubles,
and so on, up to a cap that an old phone pays in under two seconds. Real people hardly notice it, while someone who
joins ten thousand times pays ten thousand times, and most at peak demand. It raises the cost of abuse; it does not
block anyone who is willing to pay.
"""

from math import exp

# Rounds of PBKDF2 with SHA-256 per attempt: long enough for a browser to spend its time on the work rather than on
# overhead, short enough for the server to create a challenge in a fraction of a millisecond.
ROUNDS = 500
# A million rounds. Phones do at least a million per second.
MOST_ATTEMPTS = 2_000
# Demand is averaged over about this long.
MEMORY_S = 5.0


class Demand:
    """Solved challenges per second, as a decaying average."""

    def __init__(self) -> None:
        self._weight = 0.0
        self._at = 0.0

    def note(self, now_s: float) -> None:
        self._weight = self._weight * exp((self._at - now_s) / MEMORY_S) + 1.0
        self._at = now_s

    def per_second(self, now_s: float) -> float:
        return self._weight * exp((self._at - now_s) / MEMORY_S) / MEMORY_S


def attempts_for(cost: int, solved_per_second: float, rate_per_second: int) -> int:
    crowding = max(1.0, solved_per_second / rate_per_second)
    return min(MOST_ATTEMPTS, max(1, round(cost * crowding)))
