"""Streams the events of a reservation as they happen.

A stream ends when the reservation ends, after about a minute, or when the server stops. A client reconnects with the
last event it saw and misses nothing. Servers hang on SIGTERM while a stream is open, so all streams are ended first.
The number of streams is limited per process and per owner, because each one uses memory while it is open. A rejected
client can still poll the reservation.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress

from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.ledger.events.watcher import Seen, Watcher

STREAMS_MAX = 1_000
STREAMS_PER_OWNER = 4
# A long poll costs little compared to a stream. Beyond these limits, the response comes immediately.
WAITS_MAX = 20_000
WAITS_PER_OWNER = 8
SHORTEST_S, LONGEST_S = 45.0, 60.0
HEARTBEAT_S = 10.0

_ENDS = frozenset(
    f"reservation.{status}" for status in (Status.CONFIRMED, Status.FAILED, Status.CANCELLED, Status.EXPIRED)
)


Look = Callable[[], Awaitable[Reservation | None]]


class ReservationEvents:
    def __init__(self, watcher: Watcher, catch_up: Callable[[str | None], Awaitable[None]]) -> None:
        self._watcher = watcher
        self._catch_up = catch_up
        self._owners: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._stopping = asyncio.Event()

    def end_all(self) -> None:
        """End all streams, because the server stops."""
        self._stopping.set()

    async def past(self, ended: Reservation, after: int) -> list[Seen]:
        """The remaining events of a reservation that has ended."""
        await self._catch_up(ended.sku_id)
        return await self._watcher.events_after([(ended.reservation_id, after)])

    def has_room_for(self, owner_id: str) -> bool:
        return self._owners.total() < STREAMS_MAX and self._owners[owner_id] < STREAMS_PER_OWNER

    @contextmanager
    def counted(self, owner_id: str) -> Iterator[None]:
        """Counts a stream of an owner while it is open."""
        self._owners[owner_id] += 1
        try:
            yield
        finally:
            self._owners[owner_id] -= 1
            self._owners += Counter()  # Drops owners without streams.

    def may_wait(self, owner_id: str) -> bool:
        return self._waiting.total() < WAITS_MAX and self._waiting[owner_id] < WAITS_PER_OWNER

    @contextmanager
    def counted_as_waiting(self, owner_id: str) -> Iterator[None]:
        self._waiting[owner_id] += 1
        try:
            yield
        finally:
            self._waiting[owner_id] -= 1
            self._waiting += Counter()

    async def wait(self, watched: Reservation, look: Look, within_s: float) -> Reservation:
        """The reservation once it has changed, after this time, or when the server stops.

        The watcher triggers each read, so the ledger is read a few times a second however many callers wait.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s), aclosing(self._until_stopping(watched.reservation_id)) as news:
                async for _ in news:
                    if await look() != watched:
                        break
        return await look() or watched

    async def _until_stopping(self, reservation_id: str) -> AsyncGenerator[None, None]:
        """Yields whenever there are events; the first time, the existing ones."""
        news = self._watcher.watch(reservation_id, 0)
        stopping = asyncio.create_task(self._stopping.wait())
        following = asyncio.create_task(anext(news))
        try:
            while not stopping.done():
                await asyncio.wait([following, stopping], return_when=asyncio.FIRST_COMPLETED)
                if following.done():
                    following.result()
                    yield
                    following = asyncio.create_task(anext(news))
        finally:
            for task in (stopping, following):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await news.aclose()

    async def follow(self, watched: Reservation, after: int) -> AsyncGenerator[list[Seen], None]:
        """Yields batches of events as they arrive. An empty batch is a heartbeat."""
        news = self._watcher.watch(watched.reservation_id, after)
        try:
            async with aclosing(self._with_heartbeats(news)) as portions:
                async for portion in portions:
                    yield portion
        finally:
            await news.aclose()

    async def _with_heartbeats(self, news: AsyncGenerator[list[Seen], None]) -> AsyncGenerator[list[Seen], None]:
        loop = asyncio.get_running_loop()
        until = loop.time() + random.uniform(SHORTEST_S, LONGEST_S)
        stopping = loop.create_task(self._stopping.wait())
        following = loop.create_task(anext(news))
        try:
            while (left := until - loop.time()) > 0 and not stopping.done():
                await asyncio.wait(
                    [following, stopping], timeout=min(left, HEARTBEAT_S), return_when=asyncio.FIRST_COMPLETED
                )
                if not following.done() and not stopping.done():
                    yield []
                if not following.done():
                    continue
                portion = following.result()
                yield portion
                if any(seen.event.type in _ENDS for seen in portion):
                    return
                following = loop.create_task(anext(news))
        finally:
            for task in (stopping, following):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
