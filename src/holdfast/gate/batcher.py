"""Commands that arrive while the previous batch is being committed wait together, and are decided together.

The model. Each pool has a line. A batch starts as soon as none of that pool is in flight, with everyone who is then
waiting, in arrival order, up to `batch_max`; so a lone command is a batch of one, started at once, and a crowd pays for
one lock and one fsync together. Pools do not wait for one another here: each has at most one batch in flight, and the
engine takes batches first come, first served, so a hot pool cannot starve a quiet one.

What happens when it fails. A line that is full says `Busy` at once. A command whose caller has gone, or which has
waited longer than `patience_s`, is dropped before it is decided, never after; it is told so in time even while the
batch before it hangs, by one timer for all lines. If the engine cannot say whether a batch was committed, its callers
get `OutcomeUnknown`, never a verdict: the same idempotency key will find the truth.

Sold-out memory. After a refusal for want of stock, attempts within `memory_s` get the same answer from memory, so a
stampede on an empty pool does not reach the engine. An attempt with an idempotency key is not answered from memory: it
may be the repeat of one that won, and the same key must get the same answer.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic

import structlog
from msgspec import Struct

from holdfast import metrics
from holdfast.domain.command import Command, Reserve, Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.shards import whole_of
from holdfast.errors import Busy, EngineError, OutcomeUnknown, Unavailable
from holdfast.gate.port import Gate

log = structlog.get_logger()

# A timer may ring a moment early, and must not be set again for no time at all.
LEAST_TIMER_S = 0.005

_OUT_OF_STOCK = frozenset({Outcome.SOLD_OUT, Outcome.ALL_HELD})


class _Waiting(Struct, eq=False):
    command: Command
    answer: asyncio.Future[Verdict]
    since: float


class _Memory(Struct, frozen=True):
    verdict: Verdict
    until: float


class Batcher:
    def __init__(
        self,
        gate: Gate,
        *,
        batch_max: int = 512,
        line_max: int = 8192,
        patience_s: float = 2.0,
        memory_s: float = 0.1,
        line_of: Callable[[str, Command], str] | None = None,
    ) -> None:
        """`line_of` names the line of a command, if a pool has several."""
        self._gate = gate
        self._line_of = line_of
        self._batch_max = batch_max
        self._line_max = line_max
        self._patience_s = patience_s
        self._memory_s = memory_s
        self._lines: dict[str, deque[_Waiting]] = {}
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._memories: dict[str, _Memory] = {}
        self._overdue_timer: asyncio.TimerHandle | None = None
        # Asking for the running loop costs a system call on some Pythons, so it is asked once.
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, sku_id: str, command: Command) -> asyncio.Future[Verdict]:
        """Take a place in the pool's line. Cancelling the future before its turn takes the command out of the line."""
        loop = self._loop = self._loop or asyncio.get_running_loop()
        if self._line_of is not None:
            sku_id = self._line_of(sku_id, command)
        line = self._lines.get(sku_id)
        if line is None:
            line = self._lines[sku_id] = deque()
            self._serving[sku_id] = loop.create_task(self._serve(sku_id, line))
        elif len(line) >= self._line_max:
            metrics.DROPPED.labels("line_full").inc()
            raise Busy("too many commands are waiting for this pool")
        answer: asyncio.Future[Verdict] = loop.create_future()
        line.append(_Waiting(command, answer, monotonic()))
        if self._overdue_timer is None:
            self._overdue_timer = loop.call_later(self._patience_s, self._tell_overdue)
        return answer

    def recall(self, sku_id: str) -> Verdict | None:
        """What an attempt without an idempotency key was just told, if it was that there is nothing left to take."""
        memory = self._memories.get(sku_id)
        if memory is None:
            return None
        if memory.until <= monotonic():
            del self._memories[sku_id]
            return None
        metrics.count_outcome(memory.verdict.outcome)
        return memory.verdict

    async def drain(self) -> None:
        """Wait until everything accepted so far has been answered."""
        while self._serving:
            await asyncio.wait(self._serving.values())

    async def _serve(self, sku_id: str, line: deque[_Waiting]) -> None:
        try:
            while line:
                batch = self._next_batch(line)
                if batch:
                    await self._decide(sku_id, batch)
        finally:
            # However this ended: the next command must find no line, and start one that is served.
            del self._lines[sku_id], self._serving[sku_id]
            _fail_all(line, Unavailable("the line of this pool has ended"))
            self._show_waiting()

    def _next_batch(self, line: deque[_Waiting]) -> list[_Waiting]:
        too_old = monotonic() - self._patience_s
        batch: list[_Waiting] = []
        while line and len(batch) < self._batch_max:
            waiting = line.popleft()
            if not _drop(waiting, too_old):
                batch.append(waiting)
        return batch

    def _tell_overdue(self) -> None:
        """Those who come first in their lines have waited longest, so a look at the heads of the lines is enough."""
        now = monotonic()
        for line in self._lines.values():
            while line and _drop(line[0], now - self._patience_s):
                line.popleft()
        self._show_waiting()
        self._overdue_timer = None
        first = min((line[0].since for line in self._lines.values() if line), default=None)
        if first is not None:
            assert self._loop is not None
            due_in = max(first + self._patience_s - now, LEAST_TIMER_S)
            self._overdue_timer = self._loop.call_later(due_in, self._tell_overdue)

    def _show_waiting(self) -> None:
        metrics.WAITING.set(sum(map(len, self._lines.values())))

    async def _decide(self, sku_id: str, batch: list[_Waiting]) -> None:
        started = monotonic()
        try:
            verdicts = await self._apply(sku_id, [waiting.command for waiting in batch])
            self._remember(sku_id, batch, verdicts, started)
        except Exception as exc:
            self._fail(sku_id, batch, exc)
            return
        for waiting, verdict in zip(batch, verdicts, strict=True):
            if not waiting.answer.done():
                waiting.answer.set_result(verdict)
            metrics.count_outcome(verdict.outcome)
        metrics.flush_outcomes()

    async def _apply(self, sku_id: str, commands: list[Command]) -> list[Verdict]:
        metrics.BATCH_SIZE.observe(len(commands))
        self._show_waiting()
        verdicts = await self._gate.apply(sku_id, commands)
        if len(verdicts) != len(commands):
            raise OutcomeUnknown(f"the engine gave {len(verdicts)} verdicts on {len(commands)} commands")
        return verdicts

    def _fail(self, sku_id: str, batch: list[_Waiting], exc: Exception) -> None:
        _fail_all(batch, exc)
        metrics.ENGINE_FAILURES.labels(type(exc).__name__).inc()
        if isinstance(exc, EngineError):
            log.warning("batch_without_verdict", sku_id=sku_id, commands=len(batch), error=str(exc))
        else:
            log.error("batch_failed", sku_id=sku_id, commands=len(batch), exc_info=exc)

    def _remember(self, sku_id: str, batch: list[_Waiting], verdicts: list[Verdict], started: float) -> None:
        """Keep the batch's last word on stock, counted from before it was decided so that it is never too old."""
        sku_id = whole_of(sku_id)
        self._memories.pop(sku_id, None)
        last = verdicts[-1]
        if last.outcome not in _OUT_OF_STOCK or not isinstance(batch[-1].command, Reserve):
            return
        lasts = self._memory_s
        if last.retry_after_ms is not None:
            lasts = min(lasts, last.retry_after_ms / 1000)
        self._memories[sku_id] = _Memory(last, started + lasts)


def _drop(waiting: _Waiting, too_old: float) -> bool:
    """Whether the command is not to be decided any more. Whoever still waits for it is told."""
    if waiting.answer.done():
        metrics.DROPPED.labels("caller_gone").inc()
        return True
    if waiting.since < too_old:
        waiting.answer.set_exception(Busy("the command waited too long"))
        metrics.DROPPED.labels("overdue").inc()
        return True
    return False


def _fail_all(waitings: Iterable[_Waiting], exc: Exception) -> None:
    for waiting in waitings:
        if not waiting.answer.done():
            waiting.answer.set_exception(exc)
