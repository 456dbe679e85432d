"""Looks after slow requests: one timer for all of them, because one for each costs nearly as much as answering.

Several times a second it walks along the requests whose body is still arriving and the commands still waiting for a
verdict. A body that takes too long is cut off. For a command that has waited for a while it starts to listen whether
the caller is still there; if not, the command is taken out of the line before it is decided.
"""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar

from msgspec import Struct

from holdfast import metrics
from holdfast.http.problems import Problem
from holdfast.http.requests import MAX_BODY_BYTES, CallerGone, Request, Wire, body_too_large

T = TypeVar("T")

ROUND_S = 0.25
# A body of 16 KiB takes a phone on a bad line a second or two; ten is somebody holding the connection open.
BODY_TIMEOUT_S = 10.0


class _Reading(Struct, eq=False):
    task: "asyncio.Task[object]"
    since: float
    cut_off: bool = False


class _Waiting(Struct, eq=False):
    wire: Wire
    since: float
    listener: "asyncio.Task[None] | None" = None


class Patrol:
    def __init__(self, each_round: Callable[[], None] = lambda: None) -> None:
        self._each_round = each_round
        self._loop = asyncio.get_running_loop()
        self._reading: dict[Request, _Reading] = {}
        self._waiting: dict[asyncio.Future[Any], _Waiting] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(ROUND_S)
            self._walk(monotonic())

    async def read_body(self, request: Request) -> None:
        if request.content_length > MAX_BODY_BYTES:
            raise body_too_large()
        task = asyncio.current_task(self._loop)
        assert task is not None
        reading = self._reading[request] = _Reading(task, monotonic())
        try:
            request.body = await request.wire.read()
        except asyncio.CancelledError:
            if reading.cut_off and task.uncancel() == 0:
                raise Problem(
                    408, "request_timeout", "Too slow", f"Send the body within {BODY_TIMEOUT_S:g} s."
                ) from None
            raise
        except request.wire.BROKEN as exc:
            raise CallerGone from exc
        finally:
            del self._reading[request]

    async def await_verdict(self, answer: asyncio.Future[T], wire: Wire) -> T:
        waiting = self._waiting[answer] = _Waiting(wire, monotonic())
        try:
            return await answer
        except asyncio.CancelledError:
            if waiting.listener is not None and waiting.listener.done():
                raise CallerGone from None
            raise
        finally:
            del self._waiting[answer]
            if waiting.listener is not None:
                waiting.listener.cancel()

    def _walk(self, now: float) -> None:
        metrics.flush()
        self._each_round()
        for reading in self._reading.values():
            if now - reading.since > BODY_TIMEOUT_S and not reading.cut_off:
                reading.cut_off = reading.task.cancel()
        for answer, waiting in self._waiting.items():
            if now - waiting.since > ROUND_S and waiting.listener is None:
                waiting.listener = self._loop.create_task(_cancel_when_gone(answer, waiting.wire))


async def _cancel_when_gone(answer: asyncio.Future[Any], wire: Wire) -> None:
    await wire.gone()
    answer.cancel()
