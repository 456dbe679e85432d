"""One batching queue: items that arrive during a batch share the next one.

The model. Each key (a pool, a room, SQLite's one writer) has a queue. A batch starts as soon as none of that key is in
flight, with every item then waiting, in arrival order, up to `batch_max`. So a lone item is a batch of one that starts
at once, and a crowd shares one lock, one query or one fsync. Keys do not wait for one another. `run(key, items)` does
the work and returns one result per item. Two results are special: `Failed` fails its item alone, and `NOT_STARTED` puts
its item back at the head of the queue, for the next batch. `pause_s` may delay a batch, so that more items gather.

Invariants. A key has at most one batch in flight, and its items run in arrival order. A batch has at most `batch_max`
items. `submit` raises `Busy` at once when `queue_max` items are waiting. An item whose caller has gone (the future was
cancelled), or which has waited longer than `timeout_s`, is dropped before its batch starts, never after. Every future
is resolved, whatever happens.

What happens when it fails. An exception from `run` goes to every caller in the batch, and the queue continues with the
next. If the outcome is unknown (`run` was cancelled, or returned too few results), every caller in the batch
gets `OutcomeUnknown`, and those still queued get `Unavailable`, because nothing was done for them. An overdue item gets
`Busy` in time even while the batch before it hangs: one timer serves all keys.

Observers are plain callables, called once per batch or per drop, never per item.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Context
from enum import Enum
from math import inf
from time import monotonic
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from holdfast.errors import Busy, OutcomeUnknown, Unavailable
from holdfast.runtime import metrics
from holdfast.runtime.log import log_failure

Item = TypeVar("Item")
Result = TypeVar("Result")
Item_contra = TypeVar("Item_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)

# A timer may fire slightly early; setting it again with no delay would spin.
SHORTEST_TIMER_S = 0.005

# The key of a batcher that has only one queue.
ONE_QUEUE = ""


class Failed(Struct, frozen=True):
    """The result of an item that failed although its batch did not."""

    exc: Exception


class NotStarted(Enum):
    NOT_STARTED = "not_started"


NOT_STARTED: Final = NotStarted.NOT_STARTED


class Run(Protocol[Item_contra, Result_co]):
    async def __call__(self, key: str, items: Sequence[Item_contra], /) -> "Sequence[Result_co | Failed | NotStarted]":
        """Do the work of one batch, and return one result per item. It should suspend at least once while others wait:
        batches that never do would block the event loop for as long as the queue lasts."""


class Pending(Struct, Generic[Item, Result], eq=False):
    item: Item
    future: asyncio.Future[Result]
    since: float


def _ignore(*_: object) -> None:
    """The default observer."""


class KeyedBatcher(Generic[Item, Result]):
    def __init__(
        self,
        run: Run[Item, Result],
        *,
        batch_max: int,
        queue_max: int,
        timeout_s: float = inf,
        pause_s: Callable[[str], float] | None = None,
        on_results: Callable[[str, list[Pending[Item, Result]], Sequence[Result], float], None] = _ignore,
        on_failure: Callable[[str, int, Exception], None] = _ignore,
        on_drop: Callable[[str], None] = _ignore,
        on_queue: Callable[[], None] = _ignore,
    ) -> None:
        """`on_results` gets the key, the batch, its results and when it started, before any caller does. `on_queue` is
        called whenever items have left the queues other than for a batch."""
        self._run = run
        self._batch_max = batch_max
        self._queue_max = queue_max
        self._timeout_s = timeout_s
        self._pause_s = pause_s
        self._on_results = on_results
        self._on_failure = on_failure
        self._on_drop = on_drop
        self._on_queue = on_queue
        self._queues: dict[str, deque[Pending[Item, Result]]] = {}
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._in_flight: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        # `get_running_loop` costs a system call on some Pythons, so it is called once.
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, key: str, item: Item) -> asyncio.Future[Result]:
        """Queue an item. Cancelling the future before its batch starts takes the item out of the queue."""
        loop = self._loop = self._loop or asyncio.get_running_loop()
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = deque()
            # It serves all callers, so it must not belong to the trace of the first.
            self._serving[key] = loop.create_task(self._serve(key, queue), context=Context())
        elif len(queue) >= self._queue_max:
            self._on_drop("queue_full")
            raise Busy("the queue is full")
        future: asyncio.Future[Result] = loop.create_future()
        queue.append(Pending(item, future, monotonic()))
        if self._timer is None and self._timeout_s < inf:
            self._timer = loop.call_later(self._timeout_s, self._drop_overdue)
        return future

    @property
    def waiting(self) -> int:
        """Items of all keys that no batch has taken yet."""
        return sum(map(len, self._queues.values()))

    @property
    def in_flight(self) -> Mapping[str, float]:
        """By key, since when the oldest item of the batch in flight has waited."""
        return self._in_flight

    async def drain(self) -> None:
        """Wait until every item accepted so far has been answered."""
        while self._serving:
            await asyncio.wait(self._serving.values())

    async def _serve(self, key: str, queue: deque[Pending[Item, Result]]) -> None:
        try:
            while queue:
                if self._pause_s is not None and (pause_s := self._pause_s(key)) > 0:
                    await asyncio.sleep(pause_s)
                batch = self._next_batch(queue)
                if batch:
                    await self._run_batch(key, queue, batch)
        finally:
            # However this ended, the next `submit` must not find this queue, and must start a new one.
            del self._queues[key], self._serving[key]
            if queue:
                _fail_all(queue, Unavailable("the queue was stopped"))
            self._on_queue()

    def _next_batch(self, queue: deque[Pending[Item, Result]]) -> list[Pending[Item, Result]]:
        too_old = monotonic() - self._timeout_s
        batch: list[Pending[Item, Result]] = []
        while queue and len(batch) < self._batch_max:
            pending = queue.popleft()
            if pending.since < too_old or pending.future.done():
                self._drop(pending, too_old)
            else:
                batch.append(pending)
        return batch

    async def _run_batch(
        self, key: str, queue: deque[Pending[Item, Result]], batch: list[Pending[Item, Result]]
    ) -> None:
        started = monotonic()
        self._in_flight[key] = batch[0].since
        try:
            results = await self._run(key, [pending.item for pending in batch])
            _require_one_each(results, batch)
            self._on_results(key, batch, results, started)  # type: ignore[arg-type]
        except Exception as exc:
            _fail_all(batch, exc)
            self._on_failure(key, len(batch), exc)
            return
        except BaseException:
            _fail_all(batch, OutcomeUnknown("the batch was cancelled"))
            raise
        finally:
            del self._in_flight[key]
        self._resolve(queue, batch, results)

    def _resolve(
        self,
        queue: deque[Pending[Item, Result]],
        batch: list[Pending[Item, Result]],
        results: Sequence[Result | Failed | NotStarted],
    ) -> None:
        not_started = []
        for pending, result in zip(batch, results, strict=True):
            if result is NOT_STARTED:
                not_started.append(pending)
            elif type(result) is Failed:
                _fail(pending.future, result.exc)
            elif not pending.future.done():
                pending.future.set_result(result)  # type: ignore[arg-type]
        queue.extendleft(reversed(not_started))

    def _drop(self, pending: Pending[Item, Result], too_old: float) -> bool:
        """Whether the item must be dropped."""
        if pending.future.done():
            self._on_drop("caller_gone")
            return True
        if pending.since < too_old:
            pending.future.set_exception(Busy("it waited in the queue for too long"))
            self._on_drop("overdue")
            return True
        return False

    def _drop_overdue(self) -> None:
        """The head of a queue has waited longest, so only the heads need to be checked."""
        now = monotonic()
        for queue in self._queues.values():
            while queue and self._drop(queue[0], now - self._timeout_s):
                queue.popleft()
        self._on_queue()
        self._timer = None
        oldest = min((queue[0].since for queue in self._queues.values() if queue), default=None)
        if oldest is not None:
            assert self._loop is not None
            due_in_s = max(oldest + self._timeout_s - now, SHORTEST_TIMER_S)
            self._timer = self._loop.call_later(due_in_s, self._drop_overdue)


def log_failed_batch(key: str, size: int, exc: Exception) -> None:
    """An `on_failure` for batches whose callers do not log."""
    metrics.ENGINE_FAILURES.labels(type(exc).__name__).inc()
    log_failure("batch_failed", exc, key=key, items=size)


def _require_one_each(results: Sequence[object], batch: Sequence[object]) -> None:
    if len(results) != len(batch):
        raise OutcomeUnknown(f"{len(results)} results for {len(batch)} items")


def _fail_all(batch: Iterable[Pending[Item, Result]], exc: Exception) -> None:
    for pending in batch:
        _fail(pending.future, exc)


def _fail(future: asyncio.Future[Result], exc: Exception) -> None:
    if not future.done():
        # A future takes any exception but this one.
        future.set_exception(RuntimeError(repr(exc)) if isinstance(exc, StopIteration) else exc)
