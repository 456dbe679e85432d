"""Load shedding: what is refused when there are more requests than the server can handle.

The limit of concurrent requests follows from the latency of purchases (runtime/concurrency_limit.py). Excess requests
are refused before any work, lowest priority first, with prebuilt bytes and at a bounded pace (refusal_pace.py).
Features that are not needed to buy are turned off first, and responses say so.
"""

import random
from collections.abc import Awaitable, Callable
from enum import StrEnum
from functools import wraps
from time import monotonic
from typing import Any

from holdfast.http.contract import problems
from holdfast.http.contract.message import Answer, json
from holdfast.http.contract.problem import HEAD, Problem
from holdfast.http.contract.schemas.operate import DisabledOut
from holdfast.http.protection.host_pressure import HostPressure
from holdfast.http.protection.refusal_pace import RefusalPace
from holdfast.runtime import metrics
from holdfast.runtime.concurrency_limit import Limiter, Priority

# High at first, because it shrinks within a second and grows over several.
FIRST_LIMIT = 1_024
# This many wait together for half a batch even on a slow engine, so refusing them would gain nothing. Purchases may use
# nine tenths of it, which are 256.
ALWAYS_SERVED = 285
# A purchase that takes this long still feels immediate, and batches are at their best with many in them.
UNNOTICED_MS = 50.0
# Features return when nobody has been refused for this long.
RELIEF_S = 2.0
DEGRADE_AT = 0.7
# Without a purchase for this long, the latency of the last ones no longer causes refusals.
FORGET_S = 10.0
LEAST_RETRY_S, MOST_RETRY_S = 1, 5

# Only these measure the load: they all wait for the gate, and for nothing else.
_MEASURED = Priority.PURCHASE
_NAMES = tuple(priority.name.lower() for priority in Priority)

Handler = Callable[..., Awaitable[Answer]]


class Feature(StrEnum):
    """Features that are not needed to buy."""

    ODDS = "odds"
    AUDIT_SEARCH = "audit_search"
    EVENT_STREAMS = "event_streams"
    # Endpoints declared optional. They depend on the host's CPU and memory, not on refusals.
    OPTIONAL_READS = "optional_reads"


class Shedder:
    def __init__(self, limiter: Limiter | None = None, host: HostPressure | None = None) -> None:
        self.host = host or HostPressure(0)
        self.limiter = limiter or Limiter(FIRST_LIMIT, UNNOTICED_MS, ALWAYS_SERVED)
        self._pace = RefusalPace()
        self._refused_at, self._measured_at = float("-inf"), monotonic()
        self._body = Problem(problems.BUSY, "Too many requests at once. Nothing was changed; retry shortly.").body()
        self._heads = [[*HEAD, ("retry-after", str(seconds))] for seconds in range(LEAST_RETRY_S, MOST_RETRY_S + 1)]

    def tend(self) -> None:
        """To be called a few times a second."""
        self._pace.tend()
        self.host.tend()
        if monotonic() - self._measured_at > FORGET_S:
            self._measured_at = monotonic()
            self.limiter.forget()
        metrics.CONCURRENCY_LIMIT.set(self.limiter.limit)
        metrics.IN_FLIGHT.set(self.limiter.in_flight)

    def leave(self, priority: Priority, entered: float) -> None:
        """For a request that entered the limiter at this time, by the monotonic clock."""
        now = monotonic()
        took_ms = None
        if priority is _MEASURED:
            took_ms, self._measured_at = (now - entered) * 1000, now
        self.limiter.leave(took_ms, now * 1000)
        self._pace.earn()

    async def refuse(self, priority: Priority) -> Answer:
        self._refused_at = monotonic()
        metrics.count_shed(_NAMES[priority])
        await self._pace.turn()
        return Answer(503, [*random.choice(self._heads)], self._body)

    @property
    def is_strained(self) -> bool:
        return self.limiter.pressure > DEGRADE_AT or monotonic() - self._refused_at < RELIEF_S

    @property
    def degraded_features(self) -> list[str]:
        return [feature.value for feature in Feature if self.why_off(feature) is not None]

    def why_off(self, feature: Feature) -> str | None:
        """`overload` or `host`, if the feature is turned off."""
        if feature is Feature.OPTIONAL_READS:
            return "host" if self.host.is_high else None
        return "overload" if self.is_strained else None

    def optional(self, handler: Handler) -> Handler:
        """The handler, turned off while the host has hardly any CPU or memory left."""

        @wraps(handler)
        async def answer(*arguments: Any) -> Answer:
            return json(DisabledOut()) if self.host.is_high else await handler(*arguments)

        return answer

    def check(self, feature: Feature) -> None:
        """Raises for a feature that is turned off under load."""
        if self.is_strained:
            detail = f"`{feature}` is turned off under this load, so that purchases go on. Retry later."
            raise Problem(problems.BUSY, detail, degraded_features=[feature.value])
