"""The way in for any other server: ASGI, as in `uvicorn --factory holdfast.http.asgi:create_app`."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack, suppress
from typing import Any, ClassVar

from holdfast.bootstrap import open_house
from holdfast.errors import HoldfastError
from holdfast.http.app import App
from holdfast.http.requests import (
    MAX_BODY_BYTES,
    MAX_HEADER_BYTES,
    Answer,
    CallerGone,
    Headers,
    body_too_large,
    headers_too_large,
    refuse,
    request_from,
)
from holdfast.http.sending import send_while_there
from holdfast.log import set_up_logging
from holdfast.settings import Settings, load_settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class AsgiApp:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._app: App | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http" and self._app is not None:
            answer = await self._answer(self._app, scope, receive)
            if answer is not None and answer.stream is not None:
                await _send_stream(answer, answer.stream, receive, send)
            elif answer is not None:
                await _send(answer, send)

    async def _answer(self, app: App, scope: Scope, receive: Receive) -> Answer | None:
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
            return refuse(headers_too_large())
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        peer = (scope.get("client") or ("",))[0]
        wire = _AsgiWire(list(headers.items()), receive, peer)
        query = scope["query_string"].decode("latin-1")
        return await app.answer(request_from(scope["method"], scope["path"], query, wire, headers.get))

    async def _live(self, receive: Receive, send: Send) -> None:
        async with AsyncExitStack() as stack:
            await receive()
            try:
                house = await stack.enter_async_context(open_house(self._settings, background=True))
                self._app = App(house)
            except Exception as exc:
                # Whatever it was: a server that is not told goes on, with nothing behind it.
                reason = str(exc) if isinstance(exc, HoldfastError) else f"{type(exc).__name__}: {exc}"
                await send({"type": "lifespan.startup.failed", "message": reason})
                return
            _end_streams_on_signal(self._app)
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await self._app.finish()
        await send({"type": "lifespan.shutdown.complete"})


def _end_streams_on_signal(app: App) -> None:
    """Servers tell an application that they stop when everyone has left, and listeners do not leave by themselves."""
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


class _AsgiWire:
    BROKEN: ClassVar[type[Exception]] = CallerGone

    def __init__(self, headers: Headers, receive: Receive, peer: str = "") -> None:
        self._headers = headers
        self._receive = receive
        self._peer = peer

    def headers(self) -> Headers:
        return self._headers

    def peer(self) -> str:
        return self._peer

    async def read(self) -> bytes:
        body: bytes = b""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise CallerGone
            body += message.get("body", b"")
            if len(body) > MAX_BODY_BYTES:
                raise body_too_large()
            if not message.get("more_body", False):
                return body

    async def gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


async def _send_stream(answer: Answer, stream: AsyncGenerator[bytes, None], receive: Receive, send: Send) -> None:
    async def send_portion(portion: bytes) -> None:
        await send({"type": "http.response.body", "body": portion, "more_body": True})

    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send_while_there(stream, _AsgiWire([], receive), send_portion)
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
