"""A reservation's events as they happen: server-sent events."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec import UNSET, Struct, UnsetType

from holdfast.bootstrap.services import Services
from holdfast.domain.sale.sale import order_id_of
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.http.contract import problems
from holdfast.http.contract.message import Answer, Request, encode, no_content
from holdfast.http.contract.problem import NO_STORE, NOSNIFF, Problem
from holdfast.http.endpoints.reservations import ReservationEndpoints
from holdfast.http.protection.shedding import Feature, Shedder
from holdfast.ledger.events.watcher import Seen
from holdfast.runtime.times import optional_rfc3339, rfc3339

RETRY_MS = 2_000

# The last asks proxies that would wait for the end to pass it on as it comes.
_HEADERS = [("content-type", "text/event-stream"), NO_STORE, NOSNIFF, ("x-accel-buffering", "no")]
_HEARTBEAT = b": still here\n\n"


class SentEvent(Struct, frozen=True, kw_only=True):
    """An event of the history, with what it is about."""

    reservation_id: str
    order_id: str | UnsetType = UNSET
    type: str
    at: str
    quantity: int | None
    expires_at: str | None
    failure_reason: str | UnsetType = UNSET


class EventEndpoint:
    def __init__(self, services: Services, reservations: ReservationEndpoints, shedder: Shedder) -> None:
        self._events, self._reservations, self._shedder = services.reservation_events, reservations, shedder

    async def events(self, request: Request, reservation_id: str) -> Answer:
        found = await self._reservations.find(request, reservation_id)
        after = _last_event_id(request)
        if found.status not in (Status.ACTIVE, Status.SETTLING):
            news = await self._events.past(found, after)
            # 204 tells a browser that there is nothing to come back for.
            return Answer(200, [*_HEADERS], b"".join(map(_framed, news))) if news else no_content()
        self._shedder.check(Feature.EVENT_STREAMS)
        if not self._events.has_room_for(found.owner_id):
            raise Problem(problems.BUSY, "Too many event streams are open. Poll the reservation instead, or retry.")
        stream = self._stream(found, after)
        # Up to its first portion, without suspending, so that a burst of requests is counted one by one.
        await anext(stream)
        return Answer(200, [*_HEADERS], b"", stream)

    async def _stream(self, found: Reservation, after: int) -> AsyncGenerator[bytes, None]:
        with self._events.counted(found.owner_id):
            yield b""
            yield b"retry: %d\n\n" % RETRY_MS
            async with aclosing(self._events.follow(found, after)) as portions:
                async for portion in portions:
                    yield b"".join(map(_framed, portion)) or _HEARTBEAT


def _last_event_id(request: Request) -> int:
    given = request.header("last-event-id") or ""
    return int(given) if given.isascii() and given.isdecimal() and len(given) < 19 else 0


def _framed(seen: Seen) -> bytes:
    event, reservation_id = seen.event, seen.event.reservation_id or ""
    data = encode(
        SentEvent(
            reservation_id=reservation_id,
            order_id=order_id_of(reservation_id) if event.type.startswith("order.") else UNSET,
            type=event.type,
            at=rfc3339(event.at),
            quantity=event.quantity,
            expires_at=optional_rfc3339(event.expires_at),
            failure_reason=UNSET if event.failure_reason is None else event.failure_reason,
        )
    )
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (seen.seq, event.type.encode(), data)
