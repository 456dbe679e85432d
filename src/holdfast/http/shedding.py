"""What is refused when there is more to do than can be done.

In front of both lanes stands a limit on how many requests are worked on at once, found by watching how long purchases
take (domain/concurrency.py). What does not fit is refused before anything was spent on it, the least important first,
with bytes that were put together at the start. To refuse costs about half as much as to sell, and whoever asks again at
once could keep us at nothing else; so refusals are paced: those above the pace wait a moment for theirs, at no cost but
the memory of an open connection. What nobody needs in order to buy is switched off first, and says so.
"""

import asyncio
import random
from enum import StrEnum
from time import monotonic

from holdfast import metrics
from holdfast.domain.concurrency import Limiter, Priority
from holdfast.http.problems import MEDIA_TYPE, Problem
from holdfast.http.requests import Answer

# High at first, because it shrinks within a second and grows over several.
FIRST_LIMIT = 1_024
# So many wait together for half a batch, however slow the engine is: refusing them would win nothing.
ALWAYS_SERVED = 256
# A purchase that takes this long is still taken for immediate, and batches are at their best with many in them.
UNNOTICED_MS = 50.0
# Features come back when nobody has been refused for this long.
RELIEF_S = 2.0
SWITCH_OFF_AT = 0.7
LEAST_RETRY_S, MOST_RETRY_S = 1, 5
# Refusing may take about a tenth of our time.
REFUSALS_PER_SECOND = 2_000
# After a rest so much of it may be spent at once.
BURST_S = 0.1
LONGEST_WAIT_S = 1.0

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
        self._refused_at = self._next_refusal = float("-inf")
        busy = Problem(503, "busy", "Busy", "Too many requests at once. Nothing was changed; try again shortly.")
        self._body = busy.body()
        self._heads = [
            [("content-type", MEDIA_TYPE), ("retry-after", str(seconds))]
            for seconds in range(LEAST_RETRY_S, MOST_RETRY_S + 1)
        ]

    def show(self) -> None:
        metrics.CONCURRENCY_LIMIT.set(self.limiter.limit)

    def has_room(self, priority: Priority) -> bool:
        return self.limiter.has_room(priority)

    def enter(self, priority: Priority) -> bool:
        """Whoever is let in must `leave`."""
        return self.limiter.enter(priority)

    def leave(self, priority: Priority, entered: float) -> None:
        """`entered` by the monotonic clock."""
        now = monotonic()
        took_ms = (now - entered) * 1000 if priority is _MEASURED else None
        self.limiter.leave(took_ms, now * 1000)

    async def refuse(self, priority: Priority) -> Answer:
        now = self._refused_at = monotonic()
        metrics.count_shed(_NAMES[priority])
        self._next_refusal = max(self._next_refusal + 1 / REFUSALS_PER_SECOND, now - BURST_S)
        wait_s = min(self._next_refusal - now, LONGEST_WAIT_S)
        if wait_s > 0:
            await asyncio.sleep(wait_s)
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
