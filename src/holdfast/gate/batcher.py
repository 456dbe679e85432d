"""Decides the commands of each pool in batches (`runtime/batching.py`).

Pools do not wait for one another here: each has at most one batch in flight, and the engine takes batches in arrival
order, so a hot pool cannot starve a quiet one. After a batch whose outcome is unknown, a retry with the same
idempotency key finds out what happened.

Sold-out cache. After a refusal for lack of stock, attempts within `cache_s` get the same result from the cache, so a
stampede on an empty pool does not reach the engine. An attempt with an idempotency key may repeat one that was granted,
in this process or another, and must then get the same result. So it is answered from the cache only if its owner is
known to have nothing in the pool (`winners.py`), and if every rule treats it like the refused attempt. Where other
processes grant, too, one read of the store confirms the refusal for all waiting attempts (`confirmed_refusals.py`).
While a cache entry lasts, batches of that pool start at least `GATHER_S` apart, so that more attempts share one look-up
of their keys. An attempt that comes after a pause does not wait.

Latency. The duration of a pool's last batch, from the arrival of its first command, is kept for a moment: it slows down
the pace of a waiting room.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Any

from msgspec import Struct

from holdfast.domain.stock.command import Command, Reserve, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.shards import is_shard, whole_of
from holdfast.gate.cached_refusal import OUT_OF_STOCK, CachedRefusal, count_refusals, lasting_s
from holdfast.gate.confirmed_refusals import ConfirmedRefusals
from holdfast.gate.port import Gate
from holdfast.gate.winners import Winners
from holdfast.runtime import counters, metrics
from holdfast.runtime.batching import KeyedBatcher, Pending, log_failed_batch

# At 5,000 attempts per second, 15 share a batch. A batch of some hundreds takes longer than this and is not delayed.
GATHER_S = 0.003

# The duration of a batch is an indicator of the gate's load for this long.
SLOWNESS_S = 1.0

# A batch with only these outcomes left the pool unchanged.
_NOTHING_NEW = frozenset({Outcome.REPLAYED, Outcome.KEY_REUSED})


# After this many refusals from the cache, one attempt is decided before the cache entry expires. Otherwise all attempts
# would reach the gate until the pool was found empty again, and at such a rate they are many.
REFRESHED_AFTER = 32


class _Took(Struct, frozen=True):
    seconds: float
    at: float


class Batcher(KeyedBatcher[Command, Verdict]):
    def __init__(
        self,
        gate: Gate,
        *,
        batch_max: int = 512,
        queue_max: int = 8192,
        timeout_s: float = 2.0,
        cache_s: float = 0.1,
        winners: Winners | None = None,
        confirmed: ConfirmedRefusals | None = None,
    ) -> None:
        super().__init__(
            self._decide,
            batch_max=batch_max,
            queue_max=queue_max,
            timeout_s=timeout_s,
            pause_s=self._gather_s,
            on_results=self._note,
            on_failure=log_failed_batch,
            on_drop=metrics.count_drop,
            on_queue=self._show_waiting,
        )
        self._gate = gate
        self._cache_s = cache_s
        self._winners = winners
        self._confirmed = confirmed
        self._refusals: dict[str, CachedRefusal] = {}
        self._took: dict[str, _Took] = {}

    def submit(self, key: str, item: Command) -> asyncio.Future[Verdict]:
        submitted = super().submit(key, item)
        if self._winners is not None and type(item) is Reserve:
            self._winners.queue(key, item.owner_id)
        return submitted

    def cached_refusal(self, sku_id: str) -> Verdict | None:
        """The result for an attempt without an idempotency key, if the pool was just found to be empty."""
        cached = self._cached(sku_id)
        return None if cached is None else self._give(sku_id, cached)

    def cached_refusal_with_key(
        self, sku_id: str, owner_id: str, min_quantity: int, tier: int
    ) -> "Verdict | asyncio.Future[Verdict | None] | None":
        """The result for an attempt that cannot repeat a granted one, if the pool was just found to be empty. A future
        if the store has to confirm it; with None the gate has to decide."""
        cached = self._cached(sku_id)
        if cached is None or not cached.covers(min_quantity, tier):
            return None
        if self._confirmed is not None:
            return self._confirmed.ask(sku_id, owner_id, cached)
        if self._winners is None or self._winners.may_include(sku_id, owner_id):
            return None
        return self._give(sku_id, cached)

    def certain_refusal(self, sku_id: str, owner_id: str, min_quantity: int, tier: int) -> CachedRefusal | None:
        """Like `cached_refusal_with_key`, if memory suffices. `tell` counts it when it is sent."""
        cached = self._cached(sku_id)
        if cached is None or not cached.covers(min_quantity, tier) or self._is_refresh_due(cached):
            return None
        return None if self._winners is None or self._winners.may_include(sku_id, owner_id) else cached

    def tell(self, sku_id: str, cached: CachedRefusal) -> Verdict:
        if cached.given is not None:
            cached.given += 1
        count_refusals(sku_id, cached.verdict.outcome)
        return cached.verdict

    def _cached(self, sku_id: str) -> CachedRefusal | None:
        cached = self._refusals.get(sku_id)
        if cached is not None and cached.until <= monotonic():
            del self._refusals[sku_id]
            return None
        return cached

    def _give(self, sku_id: str, cached: CachedRefusal) -> Verdict | None:
        if self._is_refresh_due(cached):
            cached.given = None
            return None
        return self.tell(sku_id, cached)

    def _is_refresh_due(self, cached: CachedRefusal) -> bool:
        given = cached.given
        return given is not None and given >= REFRESHED_AFTER and monotonic() - cached.since > self._cache_s / 2

    async def drain(self) -> None:
        await super().drain()
        if self._winners is not None:
            await self._winners.drain()
        if self._confirmed is not None:
            await self._confirmed.drain()

    def slowness_ms(self) -> dict[str, float]:
        """For each pool with recent commands: the latency of the last result, or the age of the oldest command if
        higher."""
        now = monotonic()
        self._took = {key: took for key, took in self._took.items() if now - took.at < SLOWNESS_S}
        slowest: dict[str, float] = {}
        answered = [(key, took.seconds) for key, took in self._took.items()]
        unanswered = [(key, now - since) for key, since in self.in_flight.items()]
        for key, seconds in answered + unanswered:
            sku_id = whole_of(key)
            slowest[sku_id] = max(slowest.get(sku_id, 0.0), seconds * 1000)
        return slowest

    async def _decide(self, key: str, commands: Sequence[Command], /) -> Sequence[Verdict]:
        metrics.BATCH_SIZE.observe(len(commands))
        self._show_waiting()
        if self._winners is None:
            return await self._gate.apply(key, commands)
        self._winners.begin(key, commands, self._waiting_in(key))
        verdicts = None
        try:
            verdicts = await self._gate.apply(key, commands)
        finally:
            self._winners.end(key, commands, verdicts)
        return verdicts

    def _waiting_in(self, key: str) -> Iterator[Command]:
        return (pending.item for pending in self._queues.get(key, ()))

    def _show_waiting(self) -> None:
        metrics.WAITING.set(self.waiting)

    def _gather_s(self, key: str) -> float:
        cached = self._refusals.get(whole_of(key))
        return 0.0 if cached is None else min(cached.since + GATHER_S, cached.until) - monotonic()

    def _note(
        self, key: str, batch: list[Pending[Command, Verdict]], verdicts: Sequence[Verdict], started: float
    ) -> None:
        now = monotonic()
        sku_id, outcomes = whole_of(key), Counter([verdict.outcome for verdict in verdicts])
        for outcome, number in outcomes.items():
            metrics.count_outcome(outcome, number)
        metrics.flush_outcomes()
        if outcomes.keys() == {Outcome.POOL_NOT_FOUND}:
            return  # Callers can name pools that do not exist. They must not cost a row.
        self._took[key] = _Took(now - batch[0].since, now)
        if not outcomes.keys() <= _NOTHING_NEW:
            self._cache(key, batch[-1].item, verdicts[-1], started)
        counters.count_outcomes(sku_id, outcomes.items())
        counters.count_waits(sku_id, [pending.since for pending in batch], now)

    def _cache(self, key: str, command: Command, last: Verdict, started: float) -> None:
        """Cache the last verdict of a batch if it is about stock. Its age counts from before the batch was decided."""
        sku_id = whole_of(key)
        self._refusals.pop(sku_id, None)
        if last.outcome not in OUT_OF_STOCK or not isinstance(command, Reserve):
            return
        lasts_s = lasting_s(last, self._cache_s)
        self._refusals[sku_id] = CachedRefusal(last, started, started + lasts_s, command.min_quantity, command.tier)
        if self._winners is not None and lasts_s > 0:
            self._winners.prepare(sku_id, self._waiting_in(sku_id))
        # No store can confirm a refusal of a split pool, so its filter would never be used.
        if self._confirmed is not None and lasts_s > 0 and not is_shard(key):
            self._confirmed.prepare(sku_id)


class SplitBatcher(Batcher):
    """For SKUs that may be split: each shard has its own queue, whose key `key_of` chooses."""

    def __init__(self, key_of: Callable[[str, Command], str], gate: Gate, **limits: Any) -> None:
        super().__init__(gate, **limits)
        self._key_of = key_of

    def submit(self, key: str, item: Command) -> asyncio.Future[Verdict]:
        return super().submit(self._key_of(key, item), item)
