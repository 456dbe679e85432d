"""Asks that arrive while the previous batch is being committed wait together, and are answered together.

The model. Each key (a pool, a room) has a line. A batch starts as soon as none of that key is in flight, with everyone
who is then waiting, in arrival order, up to `batch_max`; so a lone ask is a batch of one, started at once, and a crowd
pays for one lock and one fsync together.

What happens when it fails. A line that is full says `Busy` at once. An ask whose caller has gone, or which has waited
longer than `patience_s`, is dropped before it is worked on, never after; it is told so in time even while the batch
before it hangs, by one timer for all lines. If the engine cannot say whether a batch was committed, its callers get
`OutcomeUnknown`, never an answer.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Generic, Protocol, TypeVar

import structlog
from msgspec import Struct

from holdfast import metrics
from holdfast.errors import Busy, EngineError, OutcomeUnknown, Unavailable

log = structlog.get_logger()

Ask = TypeVar("Ask")
Answer = TypeVar("Answer")
Ask_contra = TypeVar("Ask_contra", contravariant=True)
Answer_co = TypeVar("Answer_co", covariant=True)

# A timer may ring a moment early, and must not be set again for no time at all.
LEAST_TIMER_S = 0.005


class Apply(Protocol[Ask_contra, Answer_co]):
    async def __call__(self, key: str, asks: Sequence[Ask_contra], /) -> Sequence[Answer_co]: ...


class Waiting(Struct, Generic[Ask, Answer], eq=False):
    command: Ask
    answer: asyncio.Future[Answer]
    since: float


class Lines(Generic[Ask, Answer]):
    def __init__(self, apply: Apply[Ask, Answer], *, batch_max: int, line_max: int, patience_s: float) -> None:
        self._apply = apply
        self._batch_max = batch_max
        self._line_max = line_max
        self._patience_s = patience_s
        self._lines: dict[str, deque[Waiting[Ask, Answer]]] = {}
        self._serving: dict[str, asyncio.Task[None]] = {}
        # Since when the first of the batch in flight has waited.
        self._in_flight: dict[str, float] = {}
        self._overdue_timer: asyncio.TimerHandle | None = None
        # Asking for the running loop costs a system call on some Pythons, so it is asked once.
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, key: str, command: Ask) -> asyncio.Future[Answer]:
        """Take a place in the line. Cancelling the future before its turn takes the ask out of the line."""
        loop = self._loop = self._loop or asyncio.get_running_loop()
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = deque()
            self._serving[key] = loop.create_task(self._serve(key, line))
        elif len(line) >= self._line_max:
            metrics.DROPPED.labels("line_full").inc()
            raise Busy("too many commands are waiting for this pool")
        answer: asyncio.Future[Answer] = loop.create_future()
        line.append(Waiting(command, answer, monotonic()))
        if self._overdue_timer is None:
            self._overdue_timer = loop.call_later(self._patience_s, self._tell_overdue)
        return answer

    async def drain(self) -> None:
        """Wait until everything accepted so far has been answered."""
        while self._serving:
            await asyncio.wait(self._serving.values())

    async def _serve(self, key: str, line: deque[Waiting[Ask, Answer]]) -> None:
        try:
            while line:
                rest_s = self._rest_s(key)
                if rest_s > 0:
                    await asyncio.sleep(rest_s)
                batch = self._next_batch(line)
                if batch:
                    await self._decide(key, batch)
        finally:
            # However this ended: the next ask must find no line, and start one that is served.
            del self._lines[key], self._serving[key]
            _fail_all(line, Unavailable("the line of this pool has ended"))
            self._show_waiting()

    def _next_batch(self, line: deque[Waiting[Ask, Answer]]) -> list[Waiting[Ask, Answer]]:
        too_old = monotonic() - self._patience_s
        batch: list[Waiting[Ask, Answer]] = []
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

    async def _decide(self, key: str, batch: list[Waiting[Ask, Answer]]) -> None:
        started = monotonic()
        self._in_flight[key] = batch[0].since
        try:
            answers = await self._apply_all(key, [waiting.command for waiting in batch])
            self._note(key, batch, answers, started)
        except Exception as exc:
            self._fail(key, batch, exc)
            return
        finally:
            del self._in_flight[key]
        for waiting, answer in zip(batch, answers, strict=True):
            if not waiting.answer.done():
                waiting.answer.set_result(answer)

    async def _apply_all(self, key: str, asks: list[Ask]) -> Sequence[Answer]:
        answers = await self._apply(key, asks)
        if len(answers) != len(asks):
            raise OutcomeUnknown(f"the engine gave {len(answers)} verdicts on {len(asks)} commands")
        return answers

    def _fail(self, key: str, batch: list[Waiting[Ask, Answer]], exc: Exception) -> None:
        _fail_all(batch, exc)
        metrics.ENGINE_FAILURES.labels(type(exc).__name__).inc()
        if isinstance(exc, EngineError):
            log.warning("batch_without_verdict", line=key, commands=len(batch), error=str(exc))
        else:
            log.error("batch_failed", line=key, commands=len(batch), exc_info=exc)

    def _note(self, key: str, batch: list[Waiting[Ask, Answer]], answers: Sequence[Answer], started: float) -> None:
        """For who wants to remember what a batch was told, before its callers hear of it."""

    def _rest_s(self, key: str) -> float:
        """For who wants the next batch of a line to gather for a while."""
        return 0.0

    def _show_waiting(self) -> None:
        """For who shows how many wait."""


def _drop(waiting: Waiting[Ask, Answer], too_old: float) -> bool:
    """Whether the ask is not to be worked on any more. Whoever still waits for it is told."""
    if waiting.answer.done():
        metrics.DROPPED.labels("caller_gone").inc()
        return True
    if waiting.since < too_old:
        waiting.answer.set_exception(Busy("the command waited too long"))
        metrics.DROPPED.labels("overdue").inc()
        return True
    return False


def _fail_all(waitings: Iterable[Waiting[Ask, Answer]], exc: Exception) -> None:
    for waiting in waitings:
        if not waiting.answer.done():
            waiting.answer.set_exception(exc)
