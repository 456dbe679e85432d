"""The clock of the embedded engine.

SQLite has no clock of its own: it would ask the host's, and a host's clock can be set. This one reads the host's clock
once and then counts elapsed time, so that setting the clock an hour forward neither expires every hold at once nor lets
one live an hour longer. PostgreSQL and Redis have a clock that all API processes share, and theirs is asked instead.
"""

import time

# Unlike CLOCK_MONOTONIC it goes on while the machine sleeps, as deadlines do.
_ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SteadyClock:
    def __init__(self) -> None:
        self._started_ns = time.time_ns() - time.clock_gettime_ns(_ELAPSED)

    def now_ms(self) -> int:
        return (self._started_ns + time.clock_gettime_ns(_ELAPSED)) // 1_000_000

    def drift_ms(self) -> int:
        """How far the host's clock has been set since the start."""
        return time.time_ns() // 1_000_000 - self.now_ms()
