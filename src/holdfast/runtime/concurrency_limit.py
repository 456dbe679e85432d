"""Limits how many requests are in flight, by measuring how long they take.

The model. `Limiter` counts requests in flight. Once per window it compares how long answers took with how long they
take on an idle machine (`ease_ms`). While the difference is small, the limit grows by its square root, which finds the
capacity of any machine within seconds. When answers take more than `TOLERANCE` times as long, requests only wait for
each other, and the limit shrinks in proportion, as in Netflix's gradient limiter and TCP Vegas. What does not fit is
refused at once, before any work is spent on it. The idle latency is measured again every ten seconds, as TCP BBR does,
by admitting a tenth as many for a moment: a moving average would end up taking a long overload for normal.

Priorities. Each kind of request may use a share of the limit, so under pressure the least important are refused first,
and there is always room to finish a payment.

A server that decides in batches works best when many requests wait together, so answers that take twice as long as a
lone one are no sign of overload. Latency below `unnoticed_ms` is never a reason to refuse. It also bounds how far the
limit shrinks: the best rate seen, times that long, may always be in flight (Little's law). Where refusing itself keeps
the machine busy, answers get no faster however few are admitted, and a limit that kept shrinking would end with a
server that only refuses. The best rate decays by half in a quarter of a minute.

Only comparable requests may be measured: a server that mixes instant reads with purchases that wait for a disk passes
`None` for those that must not count.

Invariants. No request is admitted beyond its share of the limit, except requests that finish work in progress; the
limit stays between `least` and MOST. A finishing request is refused only when MOST are in flight: a limit that has just
shrunk is below what was admitted before, and that must not cost anybody their payment.

What happens when it fails. A machine that became slower for good looks overloaded until its idle latency is measured
again; until then too much is refused. If latency has nothing to do with load, the limit stays at `least`: slow, but
answering. It reads no clock and knows nothing about requests.
"""

from enum import IntEnum
from math import inf, sqrt

LEAST, MOST = 8, 4_096
# Answers may take this many times the idle latency. A command that just missed a batch waits for it and then for its
# own, which is normal.
TOLERANCE = 2.0
WINDOW_MS = 100
# With fewer answers than this the window continues.
WINDOW_ANSWERS = 10
SHRINK_AT_MOST = 0.5
# Per window: after 140 of them, half of the best rate is left.
BEST_RATE_KEPT = 0.995
# Of every hundred windows, three measure the idle latency. Only the last counts: by then earlier requests have ended.
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
# By index, because enum members are slow to hash.
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
        """After a long time without measurements, the old limit says nothing about the present."""
        self.limit, self.ease_ms, self._best_per_ms, self._windows = self._first, 0.0, 0.0, 0

    @property
    def pressure(self) -> float:
        """How much of the limit is used. Optional features are disabled by it."""
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
            # A limit that is not nearly used says nothing about the capacity of the machine.
            self.limit = min(MOST, self.limit + sqrt(self.limit))
