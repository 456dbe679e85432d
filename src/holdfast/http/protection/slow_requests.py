"""Ends slow requests with one timer for all of them, because one timer each costs nearly as much as an answer.

Several times a second it walks along the requests whose body is still arriving and the commands that wait for a
verdict. A body that takes too long is cut off. For a command that has waited for a while it starts to watch whether the
client is still connected; if not, the command is removed from the queue before it is decided.
"""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar

from msgspec import Struct

from holdfast.http.contract import problems
from holdfast.http.contract.message import ClientConnection, ClientDisconnected, Request
from holdfast.http.contract.problem import Problem
from holdfast.runtime import metrics
from holdfast.runtime.agent import Agent

T = TypeVar("T")

ROUND_S = 0.25
# A body of 16 KiB takes a phone on a bad line a second or two; ten is a client holding the connection open.
BODY_TIMEOUT_S = 10.0


class _Reading(Struct, eq=False):
    task: "asyncio.Task[object]"
    since: float
    cut_off: bool = False


class _Waiting(Struct, eq=False):
    client: ClientConnection
    since: float
    listener: "asyncio.Task[None] | None" = None


class SlowRequestReaper:
    def __init__(self, each_round: Callable[[], None] = lambda: None) -> None:
        self._each_round = each_round
        self._loop = asyncio.get_running_loop()
        self._reading: dict[Request, _Reading] = {}
        self._waiting: dict[asyncio.Future[Any], _Waiting] = {}

    def agent(self) -> Agent[None]:
        return Agent("slow_request_reaper", self._check_all, ROUND_S, rests_first=True)

    async def read_body(self, request: Request) -> None:
        if request.content_length > problems.MAX_BODY_BYTES:
            raise Problem(problems.BODY_TOO_LARGE)
        task = asyncio.current_task(self._loop)
        assert task is not None
        reading = self._reading[request] = _Reading(task, monotonic())
        try:
            request.body = await request.connection.read()
        except asyncio.CancelledError:
            if reading.cut_off and task.uncancel() == 0:
                raise Problem(problems.REQUEST_TIMEOUT, f"Send the body within {BODY_TIMEOUT_S:g} s.") from None
            raise
        except request.connection.BROKEN as exc:
            raise ClientDisconnected from exc
        finally:
            del self._reading[request]

    async def wait(self, verdict: asyncio.Future[T], client: ClientConnection) -> T:
        """The verdict. If the client disconnects first, its command is cancelled before it is decided."""
        waiting = self._waiting[verdict] = _Waiting(client, monotonic())
        try:
            return await verdict
        except asyncio.CancelledError:
            if waiting.listener is not None and waiting.listener.done():
                raise ClientDisconnected from None
            raise
        finally:
            del self._waiting[verdict]
            if waiting.listener is not None:
                waiting.listener.cancel()

    async def _check_all(self) -> None:
        now = monotonic()
        metrics.flush()
        self._each_round()
        for reading in self._reading.values():
            if now - reading.since > BODY_TIMEOUT_S and not reading.cut_off:
                reading.cut_off = reading.task.cancel()
        for verdict, waiting in self._waiting.items():
            if now - waiting.since > ROUND_S and waiting.listener is None:
                waiting.listener = self._loop.create_task(_cancel_when_disconnected(verdict, waiting.client))


async def _cancel_when_disconnected(verdict: asyncio.Future[Any], client: ClientConnection) -> None:
    await client.wait_disconnected()
    verdict.cancel()
