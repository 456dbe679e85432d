"""The time of a store, kept by our own steady clock.

The model. The first reading of the store's clock sets this one; from then on it counts elapsed time. Each later reading
corrects it by as much as the reading proves it wrong: a slow reply proves little. So all processes on a store agree to
within a round trip, and follow its clock as far as that is adjusted slowly.

What happens when it fails. A reading that is off by more than two seconds means that somebody set the store's clock, or
that it was wrong and was put right. Nothing here changes: deadlines are about elapsed time, which we know. The new time
is adopted only when a second source has confirmed it for a minute: the clock of this host. Until then the store's clock
is reported as `clock_stepped`. Deadlines that were set before keep their time of day.

At the start no elapsed time is known. If the store and this host disagree then, the clock that continues from what was
last written to the ledger is right, and the store's if that does not tell. Each live process writes a heartbeat every
second, by its own steady clock; so a process that joins others knows, however quiet the sale.
"""

import time
from collections.abc import Callable

import structlog

log = structlog.get_logger()

# Unlike CLOCK_MONOTONIC it keeps counting while the machine sleeps, as deadlines do.
ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
# Time servers correct less than this without a step, and slower replies prove nothing.
STEP_MS = 2_000
READ_EVERY_MS = 1_000
# Longer than it takes to notice that a clock was set by mistake.
CONFIRMED_AFTER_MS = 60_000
# A ledger in use was written to within this time.
RECENT_MS = 60_000
# And one with a live process, or an open sale, within this.
BUSY_MS = 5_000


def elapsed_ms() -> int:
    return time.clock_gettime_ns(ELAPSED) // 1_000_000


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class EngineClock:
    def __init__(
        self, store: str, *, elapsed: Callable[[], int] = elapsed_ms, wall: Callable[[], int] = wall_ms
    ) -> None:
        self.elapsed_ms = elapsed
        self._store = store
        self._wall_ms = wall
        self._ahead_ms: int | None = None
        self._read_at = 0
        self._agreed_since: int | None = None
        self.stepped_ms = 0
        """How far the store's clock is off; 0 unless it was stepped."""

    def now_ms(self) -> int | None:
        """None before the first reading."""
        return None if self._ahead_ms is None else self._ahead_ms + self.elapsed_ms()

    @property
    def is_reading_due(self) -> bool:
        return self._ahead_ms is None or self.elapsed_ms() - self._read_at >= READ_EVERY_MS

    def start(self, reading: int, written_at: int) -> None:
        """Set the clock by the first reading, given the latest time in the ledger."""
        wall = self._wall_ms()
        is_disputed = abs(wall - reading) > STEP_MS
        # A store that was set half a minute ahead looks recent too.
        is_busy = (
            wall < reading and _continues(wall, written_at, BUSY_MS) and not _continues(reading, written_at, BUSY_MS)
        )
        is_only = _continues(wall, written_at) and not _continues(reading, written_at)
        is_wrong = is_disputed and (is_only or is_busy)
        self._ahead_ms = (wall if is_wrong else reading) - self.elapsed_ms()
        self.correct(reading, self.elapsed_ms())

    def correct(self, reading: int, asked_at: int) -> None:
        """Take a later reading into account, which was asked for at `asked_at` of the elapsed time."""
        assert self._ahead_ms is not None
        self._read_at = self.elapsed_ms()
        at_least, at_most = reading - self._ahead_ms - self._read_at, reading - self._ahead_ms - asked_at
        off = at_least if at_least > 0 else min(at_most, 0)
        if abs(off) <= STEP_MS or self._is_confirmed(reading):
            self._adopt(off)
            return
        if not self.stepped_ms:
            log.error("clock_stepped", store=self._store, by_ms=off)
        self.stepped_ms = off

    def _is_confirmed(self, reading: int) -> bool:
        """Whether the clock of this host has agreed with the store's for long enough."""
        if abs(self._wall_ms() - reading) > STEP_MS:
            self._agreed_since = None
            return False
        if self._agreed_since is None:
            self._agreed_since = self._read_at
        return self._read_at - self._agreed_since >= CONFIRMED_AFTER_MS

    def _adopt(self, off: int) -> None:
        assert self._ahead_ms is not None
        if self.stepped_ms:
            log.warning("clock_step_ended", store=self._store, adopted_ms=off)
        self._ahead_ms += off
        self._agreed_since, self.stepped_ms = None, 0


def _continues(now: int, written_at: int, within_ms: int = RECENT_MS) -> bool:
    return -STEP_MS <= now - written_at <= within_ms
