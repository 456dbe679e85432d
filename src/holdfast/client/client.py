"""The client for programs that wait for each answer."""

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx
import msgspec

from holdfast.client import transport
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
from holdfast.client.operations import Methods
from holdfast.client.stream import EventReader, StreamEvent
from holdfast.client.types import Reservation, SaleReservation
from holdfast.client.waiting import FINAL, HasReservationId, waiting

T = TypeVar("T")


class Client(Methods):
    """`Client(url, key=…)`, where `key` is a service key or a buyer's token. Close it, or use it with `with`.

    Threads may share it. Calls are retried where that is safe, up to `attempts` times in all.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout_s: float = 10.0,
        attempts: int = 5,
        transport_: httpx.BaseTransport | None = None,
    ) -> None:
        self._options = Options(timeout_s=timeout_s, attempts=attempts)
        self._http = httpx.Client(
            base_url=transport.base_url_of(url), headers=transport.headers_of(key), transport=transport_
        )

    def with_options(self, **changes: Unpack[OptionChanges]) -> Self:
        """The same connections with other `Options`: `client.with_options(timeout_s=2, attempts=1).reserve(…)`."""
        other = object.__new__(type(self))
        other._http, other._options = self._http, msgspec.structs.replace(self._options, **changes)
        return other

    def wait_for(
        self, reservation: str | HasReservationId, *, until: Collection[str] = FINAL, timeout_s: float = 60.0
    ) -> Reservation | SaleReservation:
        """The reservation once its status is one of `until`, or its payment was declined. Else raises
        `WaitTimedOut`."""
        return self._follow(waiting(reservation, until, timeout_s, self._options, time.monotonic))

    def run(self, call: Call[T]) -> T:
        return self._follow(conversation(call, self._options))

    def stream(self, call: Call[StreamEvent]) -> Iterator[StreamEvent]:
        """Yields events as they arrive, until the server ends the stream. It does not reconnect."""
        request = transport.request_of(self._http, Send(call, self._options.timeout_s), is_stream=True)
        with _translated(call):
            response = self._http.send(request, stream=True)
            try:
                if response.status_code != 200:
                    response.read()
                    failure = failure_of(call, transport.reply_of(response))
                    if failure is not None:
                        raise failure
                    return
                reader = EventReader()
                for line in response.iter_lines():
                    yield from reader.feed(line)
            finally:
                response.close()

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _follow(self, steps: Steps[T]) -> T:
        received: Received = None
        try:
            step = next(steps)
            while True:
                if isinstance(step, Pause):
                    time.sleep(step.seconds)
                    received = None
                else:
                    received = self._send(step)
                step = steps.send(received)
        except StopIteration as end:
            result: T = end.value
            return result

    def _send(self, step: Send) -> Reply | Received:
        try:
            return transport.reply_of(self._http.send(transport.request_of(self._http, step)))
        except httpx.TransportError as exc:
            return transport.failure_of(step.call, exc)


@contextmanager
def _translated(call: Call[Any]) -> Iterator[None]:
    try:
        yield
    except httpx.TransportError as exc:
        raise transport.failure_of(call, exc) from exc
