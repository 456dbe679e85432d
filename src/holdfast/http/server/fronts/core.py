"""The process that decides: it has everything a server has but HTTP, which the fronts speak for it.

Requests come from the fronts as they read them, and are answered by the same application as everywhere else. A front
that is gone is like all of its clients having left.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable
from contextlib import AsyncExitStack, suppress
from functools import partial
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import ClassVar

import structlog
import uvloop

from holdfast.access.identity import Caller
from holdfast.bootstrap.services import open_services
from holdfast.bootstrap.starting import Startup
from holdfast.errors import EngineError, HoldfastError
from holdfast.http.contract.message import Answer, ClientDisconnected, Headers, Request, unreadable
from holdfast.http.protection.admission import build_admission
from holdfast.http.server.app import App
from holdfast.http.server.fronts.attempts import RefuseAtOnce
from holdfast.http.server.fronts.channel import (
    Answered,
    Asked,
    Attempted,
    Begun,
    Channel,
    Left,
    Portion,
    ToCore,
    heard_by_core,
)
from holdfast.http.server.listening import FINISH_S, stop_on_signal
from holdfast.http.server.sending import send_while_connected
from holdfast.http.server.traced_app import build_app
from holdfast.http.server.worker import STORES_DOWN, any_pool
from holdfast.runtime import metrics
from holdfast.runtime.log import set_up_logging
from holdfast.settings import Settings

log = structlog.get_logger()

# Fronts have `FINISH_S` to finish what they have accepted. A little more, so that the core is there until the last.
FRONTS_FINISH_S = FINISH_S + 0.4


class _Client:
    """The client of a front."""

    BROKEN: ClassVar[type[Exception]] = ClientDisconnected

    def __init__(self, asked: Asked) -> None:
        self._headers, self._peer = asked.headers, asked.peer
        self._has_left = False
        # Most requests are answered before this is needed.
        self._left: asyncio.Event | None = None
        self.taken: asyncio.Semaphore | None = None
        self.answering: asyncio.Task[None] | None = None

    def leave(self) -> None:
        self._has_left = True
        if self._left is not None:
            self._left.set()

    def headers(self) -> Headers:
        return [(name, value) for name, value in self._headers if value is not None]

    def header(self, name: str) -> str | None:
        for given, value in self._headers:
            if given == name:
                if value is None:
                    raise unreadable(name)
                return value
        return None

    def header_lines(self, name: str) -> list[str]:
        self.header(name)
        return [value for given, value in self._headers if given == name and value is not None]

    def peer(self) -> str:
        return self._peer

    def read(self) -> Awaitable[bytes]:
        raise AssertionError("the front has read it")

    async def wait_disconnected(self) -> None:
        if not self._has_left:
            self._left = self._left or asyncio.Event()
            await self._left.wait()


class Front:
    """A front, as the core sees it."""

    def __init__(self, app: App, refuse_at_once: RefuseAtOnce, fronts: "set[Front]") -> None:
        self._app, self._refuse_at_once, self._fronts = app, refuse_at_once, fronts
        self._loop = asyncio.get_running_loop()
        self._clients: dict[int, _Client] = {}
        self.channel: Channel[ToCore] = Channel(heard_by_core, self._hear, self._lose)
        fronts.add(self)
        metrics.FRONTS.set(len(fronts))

    def _hear(self, message: ToCore) -> None:
        if isinstance(message, Asked):
            client = self._clients[message.number] = _Client(message)
            # Kept, because nobody else may have a reference to it while it waits.
            client.answering = self._loop.create_task(self._answer(message, client))
            return
        if isinstance(message, Attempted):
            self.channel.say(self._refuse_at_once.answer(message))
            return
        known = self._clients.get(message.number)
        if known is not None and isinstance(message, Left):
            known.leave()
        elif known is not None and known.taken is not None:
            known.taken.release()

    async def _answer(self, asked: Asked, client: _Client) -> None:
        number = asked.number
        request = Request(
            asked.method,
            asked.path,
            asked.query,
            client,
            asked.request_id,
            asked.authorization,
            None if asked.buyer is None else _caller(*asked.buyer),
            asked.idempotency_key,
            len(asked.body),
            body=asked.body,
            unauthorized=asked.unauthorized,
            arrived=asked.arrived,
        )
        try:
            answer = await self._app.answer(request)
            if answer is not None and answer.stream is not None:
                await self._stream(number, client, answer)
            elif answer is not None:
                self.channel.say(Answered(number, answer.status, answer.headers, answer.body))
        finally:
            del self._clients[number]

    async def _stream(self, number: int, client: _Client, answer: Answer) -> None:
        """A portion at a time: what a client has not read yet is kept by its front, and must not pile up there."""
        assert answer.stream is not None
        taken = client.taken = asyncio.Semaphore(0)

        async def send(data: bytes) -> None:
            self.channel.say(Portion(number, data))
            await taken.acquire()

        self.channel.say(Begun(number, answer.status, answer.headers))
        await send_while_connected(answer.stream, client, send)
        self.channel.say(Portion(number, None))

    def _lose(self) -> None:
        self._fronts.discard(self)
        metrics.FRONTS.set(len(self._fronts))
        for client in self._clients.values():
            client.leave()


def _caller(
    buyer_id: str, tier: int, stripe_customer: str | None, account_created_at: int | None, token_id: str | None
) -> Caller:
    return Caller(
        buyer_id=buyer_id,
        tier=tier,
        stripe_customer=stripe_customer,
        account_created_at=account_created_at,
        token_id=token_id,
    )


def run_core(settings: Settings, background: bool, socket: Path, supervisor: Pipe, turn: Pipe, ready: Pipe) -> None:
    """Everything is imported now. If the serving core is lost, this one takes over."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with suppress(EOFError):
        turn.recv()
        set_up_logging(settings.log_level)
        try:
            uvloop.run(_serve(settings, background, socket, supervisor, ready))
        except (HoldfastError, OSError) as exc:
            log.error("core_failed", error=str(exc))  # noqa: TRY400 - the message is the point, not where it came from
            _tell(ready, exc)
            sys.exit(STORES_DOWN if isinstance(exc, EngineError) else 1)


async def _serve(settings: Settings, background: bool, socket: Path, supervisor: Pipe, ready: Pipe) -> None:
    stopping = asyncio.Event()
    stop_on_signal(stopping.set, supervisor)
    async with AsyncExitStack() as stack:
        startup = Startup(settings.start_timeout_s, stopping)
        services = await startup.enter(stack, partial(open_services, settings, background=background))
        if services is None:
            return
        admission = build_admission(settings)
        app, fronts = build_app(services, admission), set[Front]()
        refuse_at_once = RefuseAtOnce(services, admission, app.clicks)
        log.info("deciding", database=services.database.dialect_name, background=background, pid=os.getpid())
        server = await asyncio.get_running_loop().create_unix_server(
            lambda: Front(app, refuse_at_once, fronts).channel, str(socket)
        )
        await asyncio.to_thread(socket.chmod, 0o600)
        _tell(ready, await any_pool(services.database))
        await stopping.wait()
        app.end_streams()
        await _finish(app, fronts)
        server.close()
        for front in [*fronts]:
            front.channel.close()
    log.info("stopped")


async def _finish(app: App, fronts: set[Front]) -> None:
    """Until the last front is gone, because accepted requests still have to be answered."""
    with suppress(TimeoutError):
        async with asyncio.timeout(FRONTS_FINISH_S):
            while fronts:  # noqa: ASYNC110 - a few times, once
                await asyncio.sleep(0.01)
            await app.finish()


def _tell(ready: Pipe, news: object) -> None:
    with suppress(OSError):  # The supervisor listens to the first core only.
        ready.send(news)
