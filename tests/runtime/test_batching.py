"""The keyed batcher, whatever happens in whatever order: its order, its bounds, what it drops and what it answers."""

import asyncio
from collections.abc import Sequence
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from holdfast.errors import Busy, OutcomeUnknown, Unavailable
from holdfast.runtime import batching
from holdfast.runtime.batching import NOT_STARTED, SHORTEST_TIMER_S, Failed, KeyedBatcher
from virtual_time import VirtualTimeLoop

BATCH_MAX, QUEUE_MAX, TIMEOUT_S = 3, 5, 2.0
ENDS = ("ok", "unavailable", "unknown", "too_few", "cancelled", "first_fails", "only_first_started")

keys = st.sampled_from(["a", "b"])
# Mostly crowds and batches that end, so that queues fill up and every kind of end meets some that wait.
actions = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.tuples(keys, st.integers(1, 7))),
        st.tuples(st.just("finish"), st.tuples(keys, st.sampled_from(ENDS))),
        st.tuples(st.just("leave"), st.integers(1, 4)),
        st.tuples(st.just("pass"), st.sampled_from([0.0, 0.5, 1.5, 2.5])),
    ),
    min_size=10,
    max_size=40,
)


class Submitted(Struct, eq=False):
    number: int
    key: str
    at: float
    future: "asyncio.Future[int]"
    started: bool = False


class History:
    """Submits items, lets batches end as it is told to, and checks every step."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.batcher: KeyedBatcher[int, int] = KeyedBatcher(
            self.run, batch_max=BATCH_MAX, queue_max=QUEUE_MAX, timeout_s=TIMEOUT_S
        )
        self.items: list[Submitted] = []
        self.batches: dict[str, tuple[list[Submitted], asyncio.Future[str]]] = {}
        self.next_number: dict[str, int] = {"a": 0, "b": 0}

    async def run(self, key: str, numbers: Sequence[int], /) -> list[int | Failed | batching.NotStarted]:
        batch = [self.items[number] for number in numbers]
        assert key not in self.batches, "a key has one batch in flight"
        assert 0 < len(batch) <= BATCH_MAX
        for item in batch:
            assert not item.future.done(), "an item whose caller has gone is not worked on"
            assert self.loop.time() - item.at <= TIMEOUT_S, "an overdue item is not worked on"
            assert item.key == key
            assert item.number >= self.next_number[key], "items run in arrival order, and once"
            self.next_number[key] = item.number
            item.started = True
        self.next_number[key] += 1
        self.batches[key] = batch, self.loop.create_future()
        end = await self.batches[key][1]
        return self.end(key, batch, end)

    def end(self, key: str, batch: list[Submitted], end: str) -> list[int | Failed | batching.NotStarted]:
        del self.batches[key]
        results: list[int | Failed | batching.NotStarted] = [item.number for item in batch]
        match end:
            case "unavailable":
                raise Unavailable("down")
            case "unknown":
                raise OutcomeUnknown("lost")
            case "cancelled":
                raise asyncio.CancelledError
            case "too_few":
                return results[1:]
            case "first_fails":
                return [Failed(ValueError("its own fault")), *results[1:]]
            case "only_first_started" if len(batch) > 1:
                for item in batch[1:]:
                    item.started = False
                self.next_number[key] = batch[1].number
                return [results[0], *[NOT_STARTED] * (len(batch) - 1)]
        return results

    def submit(self, key: str) -> None:
        is_full = len(self.batcher._queues.get(key, ())) >= QUEUE_MAX
        try:
            future = self.batcher.submit(key, len(self.items))
        except Busy:
            assert is_full, "only a full queue is busy"
            return
        assert not is_full
        self.items.append(Submitted(len(self.items), key, self.loop.time(), future))

    async def finish(self, key: str, end: str) -> None:
        if key not in self.batches:
            return
        batch, ending = self.batches[key]
        waiting = [item for item in batch if not item.future.done()]
        ending.set_result(end)
        await self.settle()
        for item in waiting:
            check_end(item, end, is_first=item is batch[0])

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    def check_nobody_waits_too_long(self) -> None:
        for item in self.items:
            if not item.started and not item.future.done():
                assert self.loop.time() - item.at <= TIMEOUT_S + SHORTEST_TIMER_S

    async def play(self, script: list[tuple[str, object]]) -> None:
        for action, what in script:
            match action, what:
                case "submit", (str(key), int(count)):
                    for _ in range(count):
                        self.submit(key)
                case "leave", int(which) if which <= len(self.items):
                    self.items[-which].future.cancel()
                case "pass", float(seconds):
                    await asyncio.sleep(seconds)
                case "finish", (str(key), str(end)):
                    await self.finish(key, end)
            await self.settle()
            self.check_nobody_waits_too_long()
        await self.finish_all()

    async def finish_all(self) -> None:
        while self.batcher.waiting or self.batches:
            await self.settle()
            for key in list(self.batches):
                await self.finish(key, "ok")
        await self.batcher.drain()
        assert all(item.future.done() for item in self.items), "everyone gets an answer"
        exceptions = [item.future.exception() for item in self.items if not item.future.cancelled()]
        for failed_check in [exc for exc in exceptions if isinstance(exc, AssertionError)]:
            raise failed_check


def check_end(item: Submitted, end: str, *, is_first: bool) -> None:
    if end == "only_first_started" and not is_first:
        return
    exception = item.future.exception()
    match end:
        case "ok" | "only_first_started":
            assert item.future.result() == item.number
        case "unavailable":
            assert isinstance(exception, Unavailable)
        case "unknown" | "too_few" | "cancelled":
            assert isinstance(exception, OutcomeUnknown)
        case "first_fails":
            assert isinstance(exception, ValueError) if is_first else item.future.result() == item.number


@settings(max_examples=60)
@given(actions)
def test_order_bounds_drops_and_answers_hold_whatever_happens(script: list[tuple[str, object]]) -> None:
    async def play() -> None:
        with patch.object(batching, "monotonic", asyncio.get_running_loop().time):
            await History().play(script)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(play())
