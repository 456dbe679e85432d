"""The last refusal for lack of stock, which later attempts get without a decision."""

from msgspec import Struct

from holdfast.domain.stock.command import Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.runtime import counters, metrics

OUT_OF_STOCK = frozenset({Outcome.SOLD_OUT, Outcome.ALL_HELD})
_COUNTERS = {outcome: counters.TOLD + outcome for outcome in OUT_OF_STOCK}


class CachedRefusal(Struct):
    verdict: Verdict
    since: float
    until: float
    # Properties of the refused attempt: it was within the limit per owner, and of a sufficient tier.
    min_quantity: int
    tier: int
    # How many attempts were refused from the cache; None once an attempt was sent to be decided.
    given: int | None = 0

    def covers(self, min_quantity: int, tier: int) -> bool:
        """Whether every rule treats this attempt, by an owner without reservations, like the refused one."""
        return min_quantity <= self.min_quantity and tier >= self.tier


def lasting_s(verdict: Verdict, cache_s: float) -> float:
    """A refusal does not outlast the hold that ends first."""
    return cache_s if verdict.retry_after_ms is None else min(cache_s, verdict.retry_after_ms / 1000)


def count_refusals(sku_id: str, outcome: Outcome, number: int = 1) -> None:
    metrics.count_outcome(outcome, number)
    counters.count(sku_id, _COUNTERS[outcome], number)
