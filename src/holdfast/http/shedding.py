"""What is refused when there is more to do than can be done.

In front of both lanes stands a limit on how many requests are worked on at once, found by watching how long purchases
take (domain/concurrency.py). What does not fit is refused before anything was spent on it, the least important first,
with bytes that were put together at the start, and no faster than can be afforded (http/refusal_pace.py). What nobody
needs in order to buy is switched off first, and says so.
"""

import random
from enum import StrEnum
from time import monotonic

from holdfast import metrics
from holdfast.domain.concurrency import Limiter, Priority
from holdfast.http.problems import MEDIA_TYPE, Problem
from holdfast.http.refusal_pace import RefusalPace
from holdfast.http.requests import Answer

# High at first, because it shrinks within a second and grows over several.
FIRST_LIMIT = 1_024
# So many wait together for half a batch, however slow the engine is: refusing them would win nothing. Purchases may use
# nine tenths of it, which are 256.
ALWAYS_SERVED = 285
# A purchase that takes this long is still taken for immediate, and batches are at their best with many in them.
UNNOTICED_MS = 50.0
# Features come back when nobody has been refused for this long.
RELIEF_S = 2.0
SWITCH_OFF_AT = 0.7
# Without a purchase for this long, nobody is refused for what the last ones took.
FORGET_S = 10.0
LEAST_RETRY_S, MOST_RETRY_S = 1, 5

_OPERATING = ("/v1/ops/", "/metrics", "/docs", "/openapi.json", "/v1/webhooks", "/v1/wallets")
_WATCHING = "/v1/ops/sales/"
# Only these tell how well we are doing: they all wait for the gate, and for nothing else.
_MEASURED = Priority.PURCHASE
_NAMES = tuple(priority.name.lower() for priority in Priority)


class Feature(StrEnum):
    """What nobody needs in order to buy."""

    ODDS = "odds"
    AUDIT_SEARCH = "audit_search"
    EVENT_STREAMS = "event_streams"


class Shedder:
    def __init__(self, limiter: Limiter | None = None) -> None:
        self.limiter = limiter or Limiter(FIRST_LIMIT, UNNOTICED_MS, ALWAYS_SERVED)
        self._pace = RefusalPace()
        self._refused_at, self._measured_at = float("-inf"), monotonic()
        busy = Problem(503, "busy", "Busy", "Too many requests at once. Nothing was changed; try again shortly.")
        self._body = busy.body()
        self._heads = [
            [("content-type", MEDIA_TYPE), ("retry-after", str(seconds))]
            for seconds in range(LEAST_RETRY_S, MOST_RETRY_S + 1)
        ]

    def tend(self) -> None:
        """To be called a few times a second."""
        self._pace.tend()
        if monotonic() - self._measured_at > FORGET_S:
            self._measured_at = monotonic()
            self.limiter.forget()
        metrics.CONCURRENCY_LIMIT.set(self.limiter.limit)

    def leave(self, priority: Priority, entered: float) -> None:
        """For whoever has entered the limiter, and when, by the monotonic clock."""
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
        return self.limiter.pressure > SWITCH_OFF_AT or monotonic() - self._refused_at < RELIEF_S

    @property
    def switched_off(self) -> list[Feature]:
        return list(Feature) if self.is_strained else []

    def check(self, feature: Feature) -> None:
        """Raises for a feature that is switched off under pressure."""
        if self.is_strained:
            detail = f"Under this load `{feature}` is switched off, so that buying goes on. Try again in a while."
            raise Problem(503, "busy", "Switched off under load", detail, switched_off=feature)


def priority_of(method: str, path: str) -> Priority | None:
    """None for what is never refused: whether a process lives must be told above all when it is busy."""
    if path.endswith(("/purchase", "/reserve")):
        return Priority.PURCHASE
    if path.startswith("/healthz/"):
        return None
    if path.startswith(_WATCHING) and path.endswith("/live"):
        # A few operators who look at what is kept for all of them: above all when there is much to do.
        return Priority.FINISH
    if path.startswith(_OPERATING):
        return Priority.CONSOLE
    if path.endswith(("/queue", "/admission", "/challenge")):
        return Priority.JOIN
    # Whatever else changes something ends what was begun (pays, confirms, lets go, refunds), or is an operator at work.
    return Priority.READ if method in ("GET", "HEAD") else Priority.FINISH
