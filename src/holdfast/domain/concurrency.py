"""How many requests are worked on at once, found by watching how long they take.

The model. `Limiter` counts what is in flight. Once per window it compares how long answers took with how long they take
when the machine is at ease (`ease_ms`). As long as that is not much more, the limit grows by its square root, which
finds a machine of any size within seconds; when answers take more than `TOLERANCE` times as long, people only wait for
each other, and the limit shrinks in proportion, as in Netflix's gradient limiter and TCP Vegas. What does not fit is
refused at once, before anything was spent on it. Ease is measured afresh every ten seconds, as TCP BBR does, by letting
in a tenth as many for a moment: an average that merely forgot would take a long overload for ease.

Priorities. Each kind of request may use a part of the limit, so under pressure the least important are refused first,
and there is always room to finish a payment.

A server that decides in batches is at its best when many wait together, so answers that take twice as long as a lone
one are no sign of overload there. `unnoticed_ms` is how long answers may take however quick they could be: nobody
notices, and nobody is refused for it. It also bounds how far the limit shrinks: as many as were answered per second at
best, times that long, can always be under way (Little's law). Where refusing itself keeps the machine busy, answers get
no quicker however few are let in, and a limit that went on shrinking would end with a server that only refuses. The
best rate is forgotten by half in a quarter of a minute.

Only like can be compared with like: whoever answers reads in no time beside purchases that wait for a disk says `None`
for what is not to be measured.

The invariants: nobody is let in beyond their part of the limit, but for those who finish what was begun; the limit
stays between `least` and MOST. Whoever finishes is refused only when MOST are in flight: a limit that has just shrunk
is below what was let in before, and that must not cost anybody their payment.

When it fails. A machine that became slower for good looks overloaded until its ease is measured again; until then too
much is refused. If latency has nothing to do with load, the limit rests at `least`: slow, but answering. It reads no
clock and knows nothing about requests.
"""

from enum import IntEnum
from math import inf, sqrt

LEAST, MOST = 8, 4_096
# Answers may take this many times as long as at ease. Batches make waiting together normal: a command that just missed
# one waits for it and then for its own.
TOLERANCE = 2.0
WINDOW_MS = 100
# Fewer answers than this say nothing yet, and the window goes on.
WINDOW_ANSWERS = 10
SHRINK_AT_MOST = 0.5
# By window: after 140 of them, half of the best rate is left.
BEST_RATE_KEPT = 0.995
# Of every hundred windows, three are for measuring ease. What began before has ended by the last, which counts.
PROBE_EVERY, PROBE_FOR, PROBE_PART = 100, 3, 0.1


class Priority(IntEnum):
    """From the most important. Console pages are the first to wait."""

    FINISH = 0
    PURCHASE = 1
    JOIN = 2
    READ = 3
    CONSOLE = 4


PARTS = {
    Priority.FINISH: inf,
    Priority.PURCHASE: 0.9,
    Priority.JOIN: 0.75,
    Priority.READ: 0.6,
    Priority.CONSOLE: 0.4,
}
# By number, because a member of an enum takes long to hash.
_PARTS = tuple(PARTS[priority] for priority in Priority)
_FINISH = Priority.FINISH


class Limiter:
    def __init__(self, limit: float = 64.0, unnoticed_ms: float = 0.0, least: float = LEAST) -> None:
        self._floor = least
        self._first = self.limit = limit
        self._unnoticed_ms = unnoticed_ms
        self.in_flight = 0
        self.ease_ms = 0.0
        self._since = 0.0
        self._answers = 0
        self._took_ms = 0.0
        self._peak = 0
        self._windows = 0
        self._before_probe = limit
        self._best_per_ms = 0.0

    def enter(self, priority: Priority) -> bool:
        """Whether a request may begin. One that began must `leave` exactly once."""
        if not self.has_room(priority):
            return False
        self.in_flight += 1
        self._peak = max(self._peak, self.in_flight)
        return True

    def has_room(self, priority: Priority) -> bool:
        return self.in_flight < (MOST if priority is _FINISH else self.limit * _PARTS[priority])

    def leave(self, took_ms: float | None, now_ms: float) -> None:
        self.in_flight -= 1
        if took_ms is None:
            return
        self._answers += 1
        self._took_ms += took_ms
        if now_ms - self._since >= WINDOW_MS and self._answers >= WINDOW_ANSWERS:
            rate = self._answers / (now_ms - self._since)
            self._best_per_ms = max(rate, self._best_per_ms * BEST_RATE_KEPT)
            self._adapt(self._took_ms / self._answers)
            self._since, self._answers, self._took_ms, self._peak = now_ms, 0, 0.0, self.in_flight

    def forget(self) -> None:
        """Nothing was measured for long: a limit that was found then says nothing about now."""
        self.limit, self.ease_ms, self._best_per_ms, self._windows = self._first, 0.0, 0.0, 0

    @property
    def pressure(self) -> float:
        """How much of the limit is used: what is not essential can be switched off by it."""
        return self.in_flight / self.limit

    @property
    def _least(self) -> float:
        return max(self._floor, self._best_per_ms * self._unnoticed_ms)

    def _adapt(self, took_ms: float) -> None:
        self._windows += 1
        phase = self._windows % PROBE_EVERY
        if phase == PROBE_EVERY - PROBE_FOR:
            self._before_probe, self.limit = self.limit, max(self._least, self.limit * PROBE_PART)
        elif phase == 0:
            self.ease_ms, self.limit = took_ms, self._before_probe
        elif phase < PROBE_EVERY - PROBE_FOR:
            self._follow(took_ms)

    def _follow(self, took_ms: float) -> None:
        self.ease_ms = min(took_ms, self.ease_ms or took_ms)
        gradient = max(TOLERANCE * self.ease_ms, self._unnoticed_ms) / max(took_ms, 1e-6)
        if gradient < 1:
            self.limit = max(self._least, self.limit * max(SHRINK_AT_MOST, gradient))
        elif self._peak >= self.limit / 2:
            # A limit that nobody comes near says nothing about what the machine could do.
            self.limit = min(MOST, self.limit + sqrt(self.limit))
