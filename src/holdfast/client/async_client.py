"""The client for asyncio."""

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from types import TracebackType
from typing import Self, TypeVar, Unpack

import httpx
import msgspec

from holdfast.client import transport
from holdfast.client.async_operations import AsyncMethods
from holdfast.client.call import Call
from holdfast.client.conversation import (
    OptionChanges,
    Options,
    Pause,
    Received,
    Reply,
    Send,
    Steps,
    conversation,
    failure_of,
)
from holdfast.client.stream import EventReader, StreamEvent
from holdfast.client.types import Reservation, SaleReservation
from holdfast.client.waiting import FINAL, HasReservationId, waiting

T = TypeVar("T")


class AsyncClient(AsyncMethods):
    """Like `Client`, with `await` and `async with`. Bound to the event loop that first uses it."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout_s: float = 10.0,
        attempts: int = 5,
        transport_: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._options = Options(timeout_s=timeout_s, attempts=attempts)
        self._http = httpx.AsyncClient(
            base_url=transport.base_url_of(url), headers=transport.headers_of(key), transport=transport_
        )

    def with_options(self, **changes: Unpack[OptionChanges]) -> Self:
        """The same connections with other `Options`."""
        other = object.__new__(type(self))
        other._http, other._options = self._http, msgspec.structs.replace(self._options, **changes)
        return other

    async def wait_for(
        self, reservation: str | HasReservationId, *, until: Collection[str] = FINAL, timeout_s: float = 60.0
    ) -> Reservation | SaleReservation:
        """The reservation once its status is one of `until`, or its payment was declined. Else raises
        `WaitTimedOut`."""
        return await self._follow(waiting(reservation, until, timeout_s, self._options, time.monotonic))

    async def run(self, call: Call[T]) -> T:
        return await self._follow(conversation(call, self._options))

    async def stream(self, call: Call[StreamEvent]) -> AsyncIterator[StreamEvent]:
        """Yields events as they arrive, until the server ends the stream. It does not reconnect."""
        request = transport.request_of(self._http, Send(call, self._options.timeout_s), is_stream=True)
        try:
            response = await self._http.send(request, stream=True)
            try:
                if response.status_code != 200:
                    await response.aread()
                    failure = failure_of(call, transport.reply_of(response))
                    if failure is not None:
                        raise failure
                    return
                reader = EventReader()
                async for line in response.aiter_lines():
                    for event in reader.feed(line):
                        yield event
            finally:
                await response.aclose()
        except httpx.TransportError as exc:
            raise transport.failure_of(call, exc) from exc

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _follow(self, steps: Steps[T]) -> T:
        received: Received = None
        try:
            step = next(steps)
            while True:
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    received = None
                else:
                    received = await self._send(step)
                step = steps.send(received)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _send(self, step: Send) -> Reply | Received:
        try:
            return transport.reply_of(await self._http.send(transport.request_of(self._http, step)))
        except httpx.TransportError as exc:
            return transport.failure_of(step.call, exc)
