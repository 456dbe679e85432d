"""The commands of each pool, decided in batches (see `lines.py`).

Pools do not wait for one another here: each has at most one batch in flight, and the engine takes batches first come,
first served, so a hot pool cannot starve a quiet one. After a batch whose outcome is unknown, the same idempotency key
will find the truth.

Sold-out memory. After a refusal for want of stock, attempts within `memory_s` get the same answer from memory, so a
stampede on an empty pool does not reach the engine. An attempt with an idempotency key is not answered from memory: it
may be the repeat of one that won, in this process or another, and the same key must get the same answer. But while that
memory lasts, the batches of its pool begin `GATHER_S` apart: nothing is to be had by being quick, and those who come
meanwhile are answered by one look at their keys instead of many. Who comes after a pause does not wait.

Slowness. How long the last batch of a pool took, counted from when the first in it came, is kept for a moment: the pace
of a waiting room slows down by it.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from msgspec import Struct

from holdfast import counting, metrics
from holdfast.domain.command import Command, Reserve, Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.shards import whole_of
from holdfast.gate.lines import Lines, Waiting
from holdfast.gate.port import Gate

# At 5,000 attempts a second, 15 share a look. A batch of some hundreds takes longer than this, so they do not gather.
GATHER_S = 0.003

# An answer tells about the gate for this long.
SLOWNESS_S = 1.0

_OUT_OF_STOCK = frozenset({Outcome.SOLD_OUT, Outcome.ALL_HELD})


class _Memory(Struct, frozen=True):
    verdict: Verdict
    since: float
    until: float


class _Took(Struct, frozen=True):
    seconds: float
    at: float


class Batcher(Lines[Command, Verdict]):
    def __init__(
        self,
        gate: Gate,
        *,
        batch_max: int = 512,
        line_max: int = 8192,
        patience_s: float = 2.0,
        memory_s: float = 0.1,
    ) -> None:
        super().__init__(gate.apply, batch_max=batch_max, line_max=line_max, patience_s=patience_s)
        self._memory_s = memory_s
        self._memories: dict[str, _Memory] = {}
        self._took: dict[str, _Took] = {}

    def recall(self, sku_id: str) -> Verdict | None:
        """What an attempt without an idempotency key was just told, if it was that there is nothing left to take."""
        memory = self._memories.get(sku_id)
        if memory is None:
            return None
        if memory.until <= monotonic():
            del self._memories[sku_id]
            return None
        metrics.count_outcome(memory.verdict.outcome)
        counting.count_told(sku_id, [(memory.verdict.outcome, 1)])
        return memory.verdict

    def slowness_ms(self) -> dict[str, float]:
        """By pool, of those asked lately: what the last answer took, or the oldest without one has waited if longer."""
        now = monotonic()
        self._took = {line: took for line, took in self._took.items() if now - took.at < SLOWNESS_S}
        slowest: dict[str, float] = {}
        answered = [(line, took.seconds) for line, took in self._took.items()]
        unanswered = [(line, now - since) for line, since in self._in_flight.items()]
        for line, seconds in answered + unanswered:
            sku_id = whole_of(line)
            slowest[sku_id] = max(slowest.get(sku_id, 0.0), seconds * 1000)
        return slowest

    def _rest_s(self, key: str) -> float:
        memory = self._memories.get(whole_of(key))
        return 0.0 if memory is None else min(memory.since + GATHER_S, memory.until) - monotonic()

    def _show_waiting(self) -> None:
        metrics.WAITING.set(sum(map(len, self._lines.values())))

    async def _apply_all(self, key: str, asks: list[Command]) -> Sequence[Verdict]:
        metrics.BATCH_SIZE.observe(len(asks))
        self._show_waiting()
        return await super()._apply_all(key, asks)

    def _note(
        self, key: str, batch: list[Waiting[Command, Verdict]], answers: Sequence[Verdict], started: float
    ) -> None:
        now = monotonic()
        self._took[key] = _Took(now - batch[0].since, now)
        sku_id = whole_of(key)
        self._remember(sku_id, batch[-1].command, answers[-1], started)
        told = Counter(verdict.outcome for verdict in answers)
        for outcome, number in told.items():
            metrics.count_outcome(outcome, number)
        counting.count_told(sku_id, told.items())
        counting.count_waits(sku_id, [waiting.since for waiting in batch], now)
        metrics.flush_outcomes()

    def _remember(self, sku_id: str, command: Command, last: Verdict, started: float) -> None:
        """Keep the batch's last word on stock, counted from before it was decided so that it is never too old."""
        self._memories.pop(sku_id, None)
        if last.outcome not in _OUT_OF_STOCK or not isinstance(command, Reserve):
            return
        lasts = self._memory_s
        if last.retry_after_ms is not None:
            lasts = min(lasts, last.retry_after_ms / 1000)
        self._memories[sku_id] = _Memory(last, started, started + lasts)


class SplitBatcher(Batcher):
    """For SKUs that may be split: each of their shards has a line of its own, which `line_of` names."""

    def __init__(self, line_of: Callable[[str, Command], str], gate: Gate, **limits: Any) -> None:
        super().__init__(gate, **limits)
        self._line_of = line_of

    def submit(self, key: str, command: Command) -> asyncio.Future[Verdict]:
        return super().submit(self._line_of(key, command), command)
