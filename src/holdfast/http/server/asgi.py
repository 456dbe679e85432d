"""ASGI, for other servers: `uvicorn --factory holdfast.http.asgi:create_app`."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, ClassVar

from holdfast.bootstrap.starting import Startup
from holdfast.errors import HoldfastError
from holdfast.http.contract import problems
from holdfast.http.contract.message import Answer, ClientDisconnected, Headers, unreadable
from holdfast.http.contract.problem import Problem
from holdfast.http.server.cells.app import open_app
from holdfast.http.server.listening import Stoppable
from holdfast.http.server.reading import request_from
from holdfast.http.server.sending import send_while_connected
from holdfast.runtime.log import set_up_logging
from holdfast.settings import Settings, load_settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
# Headers as they came; None for a value that cannot be read.
Lines = list[tuple[str, str | None]]


class AsgiApp:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._app: Stoppable | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http" and self._app is not None:
            answer = await self._answer(self._app, scope, receive)
            if answer is not None and answer.stream is not None:
                await _send_stream(answer, answer.stream, receive, send)
            elif answer is not None:
                await _send(answer, send)

    async def _answer(self, app: Stoppable, scope: Scope, receive: Receive) -> Answer | None:
        if sum(len(name) + len(value) for name, value in scope["headers"]) > problems.MAX_HEADER_BYTES:
            return app.refuse_unread(Problem(problems.HEADERS_TOO_LARGE), None)
        given: list[tuple[bytes, bytes]] = scope["headers"]
        lines = [(name.decode("latin-1"), value.decode() if value.isascii() else None) for name, value in given]
        # Reversed, because the first of several values counts.
        headers = dict(reversed(lines))
        peer = (scope.get("client") or ("",))[0]
        client = _AsgiConnection(lines, headers, receive, peer)
        query = scope["query_string"].decode("latin-1")
        try:
            request = request_from(scope["method"], scope["path"], query, client, headers)
        except Problem as problem:
            return app.refuse_unread(problem, headers.get("x-request-id"))
        return await app.answer(request)

    async def _live(self, receive: Receive, send: Send) -> None:
        async with AsyncExitStack() as stack:
            await receive()
            try:
                # Such a server listens only after this, so it does not answer while it waits for its stores.
                opening = partial(open_app, self._settings, background=True)
                opened = await Startup(self._settings.start_timeout_s, asyncio.Event()).enter(stack, opening)
                assert opened is not None
                self._app = opened[1]
            except Exception as exc:
                # Whatever it was: the server must learn of it, or it would keep serving without an application.
                reason = str(exc) if isinstance(exc, HoldfastError) else f"{type(exc).__name__}: {exc}"
                await send({"type": "lifespan.startup.failed", "message": reason})
                return
            _end_streams_on_signal(self._app)
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await self._app.finish()
        await send({"type": "lifespan.shutdown.complete"})


def _end_streams_on_signal(app: Stoppable) -> None:
    """Servers signal their shutdown only when all connections are closed, which open streams prevent."""
    loop = asyncio.get_running_loop()

    def chain(number: signal.Signals) -> None:
        before = signal.getsignal(number)

        def end_streams_first(*given: Any) -> None:
            loop.call_soon_threadsafe(app.end_streams)
            if callable(before):
                before(*given)

        if callable(before):
            signal.signal(number, end_streams_first)

    with suppress(ValueError):  # Signals are for the main thread; a server elsewhere waits for the streams to end.
        chain(signal.SIGTERM)
        chain(signal.SIGINT)


class _AsgiConnection:
    BROKEN: ClassVar[type[Exception]] = ClientDisconnected

    def __init__(self, lines: Lines, headers: dict[str, str | None], receive: Receive, peer: str) -> None:
        self._lines = lines
        self._headers = headers
        self._receive = receive
        self._peer = peer

    def headers(self) -> Headers:
        return [(name, value) for name, value in self._lines if value is not None]

    def header(self, name: str) -> str | None:
        value = self._headers.get(name)
        if value is None and name in self._headers:
            raise unreadable(name)
        return value

    def header_lines(self, name: str) -> list[str]:
        if (name, None) in self._lines:
            raise unreadable(name)
        return [value for given, value in self._lines if given == name and value is not None]

    def peer(self) -> str:
        return self._peer

    async def read(self) -> bytes:
        body: bytes = b""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            body += message.get("body", b"")
            if len(body) > problems.MAX_BODY_BYTES:
                raise Problem(problems.BODY_TOO_LARGE)
            if not message.get("more_body", False):
                return body

    async def wait_disconnected(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


async def _send_stream(answer: Answer, stream: AsyncGenerator[bytes, None], receive: Receive, send: Send) -> None:
    async def send_portion(portion: bytes) -> None:
        await send({"type": "http.response.body", "body": portion, "more_body": True})

    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send_while_connected(stream, _AsgiConnection([], {}, receive, ""), send_portion)
    await send({"type": "http.response.body", "body": b""})


async def _send(answer: Answer, send: Send) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    if answer.status != 204:
        headers.append((b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def create_app() -> AsgiApp:
    settings = load_settings()
    set_up_logging(settings.log_level)
    return AsgiApp(settings)
