"""A circuit breaker: when a dependency is down, calls fail at once instead of waiting.

The model. While closed, calls go through. After several failures in a row, or when the caller trips it, it opens: calls
are refused without being made. After a pause that grows with every failure, one call goes through as a test (half
open): if it succeeds the breaker closes, otherwise the pause begins again. It reads no clock.

The invariants: no call while open and before the pause is over; never two at once while half open; one success closes.

When it fails. A dependency that fails half of the time never opens it, because each success resets the count. That is
intended: half of the calls are better than none.
"""

from enum import StrEnum
from typing import Protocol, runtime_checkable


class Circuit(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Breaker:
    def __init__(
        self, name: str, *, failures_max: int = 5, least_pause_ms: float = 500, most_pause_ms: float = 500
    ) -> None:
        self.name = name
        self.state = Circuit.CLOSED
        self._failures_max = failures_max
        self._least_pause_ms, self._most_pause_ms = least_pause_ms, most_pause_ms
        self._failures = 0
        self._pause_ms = least_pause_ms
        self._until = 0.0

    @property
    def is_closed(self) -> bool:
        return self.state is Circuit.CLOSED

    def allows(self, now_ms: float) -> bool:
        """Whether a call may be made. If so, the caller must report the result."""
        if self.state is Circuit.OPEN and now_ms >= self._until:
            self.state = Circuit.HALF_OPEN
            return True
        return self.state is Circuit.CLOSED

    def succeeded(self) -> None:
        self.state, self._failures, self._pause_ms = Circuit.CLOSED, 0, self._least_pause_ms

    def failed(self, now_ms: float) -> None:
        self._failures += 1
        if (self.state is not Circuit.OPEN and self._failures >= self._failures_max) or self.state is Circuit.HALF_OPEN:
            self.trip(now_ms)

    def withdrawn(self) -> None:
        """A call that was admitted ended without a result, because its caller left."""
        if self.state is Circuit.HALF_OPEN:
            self.state = Circuit.OPEN

    def trip(self, now_ms: float) -> None:
        if self.state is Circuit.HALF_OPEN:
            self._pause_ms = min(2 * self._pause_ms, self._most_pause_ms)
        self.state = Circuit.OPEN
        self._until = now_ms + self._pause_ms


@runtime_checkable
class Guarded(Protocol):
    """Something that may have a breaker in front."""

    @property
    def breaker(self) -> Breaker | None: ...
