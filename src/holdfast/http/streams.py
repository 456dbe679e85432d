"""A reservation's events as they happen: server-sent events.

A stream ends when the reservation has, after about a minute, or when the server stops; a client that still wants to
know connects again with `Last-Event-ID` and misses nothing. Servers hang on SIGTERM while a stream is open, so all of
them are ended first. There are at most so many per process and per owner: a stream costs memory for as long as it
lasts, and whoever gets none can still ask for the reservation.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

import msgspec

from holdfast.bootstrap import House
from holdfast.domain.reservation import Reservation, Status
from holdfast.domain.sale import order_id_of
from holdfast.http.fast_lane import identify
from holdfast.http.requests import Answer, Request
from holdfast.http.reservations import find, require_owner_or_inventory
from holdfast.http.sale_problems import busy_with_streams
from holdfast.http.schemas import event_body
from holdfast.http.shedding import Feature
from holdfast.ledger.watcher import Seen, Watcher

STREAMS_MAX = 1_000
STREAMS_PER_OWNER = 4
SHORTEST_S, LONGEST_S = 45.0, 60.0
HEARTBEAT_S = 10.0
RETRY_MS = 2_000

_HEADERS = [
    ("content-type", "text/event-stream"),
    ("cache-control", "no-store"),
    # Asks proxies that would wait for the end to pass it on as it comes.
    ("x-accel-buffering", "no"),
]
_ENDS = frozenset(
    f"reservation.{status}" for status in (Status.CONFIRMED, Status.FAILED, Status.CANCELLED, Status.EXPIRED)
)


class Streams:
    def __init__(self, house: House) -> None:
        self._house = house
        self._watcher = Watcher(house.database)
        self._owners: Counter[str] = Counter()
        self._stopping = asyncio.Event()

    def end(self) -> None:
        """The server stops: nobody is kept waiting for it."""
        self._stopping.set()

    async def events(self, request: Request, reservation_id: str) -> Answer:
        found = await self._find(request, reservation_id)
        after = _last_event_id(request)
        if found.status not in (Status.ACTIVE, Status.SETTLING):
            await self._house.engine.catch_up(found.sku_id)
            news = await self._watcher.events_after([(reservation_id, after)])
            # 204 tells a browser that there is nothing to come back for.
            return Answer(200, [*_HEADERS], b"".join(map(_framed, news))) if news else Answer(204, [], b"")
        self._house.door.shedder.check(Feature.EVENT_STREAMS)
        if self._owners.total() >= STREAMS_MAX or self._owners[found.owner_id] >= STREAMS_PER_OWNER:
            raise busy_with_streams()
        return Answer(200, [*_HEADERS], b"", self._stream(found, after))

    async def _find(self, request: Request, reservation_id: str) -> Reservation:
        caller = await identify(self._house, request.authorization)
        require_owner_or_inventory(caller)
        return await find(self._house, caller, reservation_id)

    async def _stream(self, found: Reservation, after: int) -> AsyncGenerator[bytes, None]:
        self._owners[found.owner_id] += 1
        news = self._watcher.watch(found.reservation_id, after)
        try:
            yield b"retry: %d\n\n" % RETRY_MS
            async with aclosing(self._with_heartbeats(news)) as portions:
                async for portion in portions:
                    yield portion
        finally:
            await news.aclose()
            self._owners[found.owner_id] -= 1
            self._owners += Counter()  # Forgets who has none any more.

    async def _with_heartbeats(self, news: AsyncGenerator[list[Seen], None]) -> AsyncGenerator[bytes, None]:
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
                    yield b": still here\n\n"
                if not following.done():
                    continue
                portion = following.result()
                yield b"".join(map(_framed, portion))
                if any(seen.event.type in _ENDS for seen in portion):
                    return
                following = loop.create_task(anext(news))
        finally:
            for task in (stopping, following):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


def _last_event_id(request: Request) -> int:
    given = next((value for name, value in request.wire.headers() if name == "last-event-id"), "")
    return int(given) if given.isascii() and given.isdecimal() and len(given) < 19 else 0


def _framed(seen: Seen) -> bytes:
    reservation_id = seen.event.reservation_id or ""
    order = {"order_id": order_id_of(reservation_id)} if seen.event.type.startswith("order.") else {}
    data = msgspec.json.encode({"reservation_id": reservation_id, **order, **event_body(seen.event)})
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (seen.seq, seen.event.type.encode(), data)
