"""A front by itself, over real sockets and on the server's event loop, with a handler that tells what it saw."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import ParamSpec

import msgspec
import uvloop
from http_sockets import parse_head

from holdfast.http.front.listening import Front
from holdfast.http.problems import Problem
from holdfast.http.requests import Answer, CallerGone, Request, refuse

WITHIN_S = 30.0

Parameters = ParamSpec("Parameters")


def on_uvloop(test: Callable[Parameters, Coroutine[None, None, None]]) -> Callable[Parameters, None]:
    """As the server runs: its transports differ from asyncio's in what happens at the end of a connection."""

    @wraps(test)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(test(*args, **kwargs))

    return run


class Talk:
    """One connection to a front."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def everything(self) -> bytes:
        async with asyncio.timeout(WITHIN_S):
            return await self.reader.read()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        async with asyncio.timeout(WITHIN_S):
            status, headers = parse_head(await self.reader.readuntil(b"\r\n\r\n"))
            return status, headers, await self.reader.readexactly(int(headers.get("content-length", "0")))


class House:
    """What was asked, and a gate that keeps answers back for as long as a test wants."""

    def __init__(self) -> None:
        self.seen: list[Request] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def answer(self, request: Request) -> Answer | None:
        self.seen.append(request)
        await self.gate.wait()
        if request.path == "/nobody":
            return None
        if request.path == "/stream":
            return Answer(200, [("content-type", "text/plain")], b"", _portions())
        if request.path == "/empty":
            return Answer(204, [], b"")
        if request.path == "/broken":
            return Answer(200, [("x-bad", "a\r\nx-injected: b")], b"")
        try:
            body = await request.wire.read() if request.has_body else b""
        except Problem as exc:
            return refuse(exc)
        except CallerGone:
            return None
        told = {"method": request.method, "path": request.path, "query": request.query, "body": body.decode("latin-1")}
        return Answer(200, [("content-type", "application/json")], msgspec.json.encode(told))


async def _portions() -> AsyncGenerator[bytes, None]:
    for portion in (b"one ", b"", b"two ", b"three"):
        yield portion


@asynccontextmanager
async def talking(house: House) -> AsyncIterator[tuple[Front, Callable[[], Awaitable[Talk]]]]:
    front = Front(house.answer)
    await front.listen("127.0.0.1", 0)
    assert front._server is not None
    port = front._server.sockets[0].getsockname()[1]

    talks: list[Talk] = []

    async def connect() -> Talk:
        talks.append(Talk(*await asyncio.open_connection("127.0.0.1", port)))
        return talks[-1]

    try:
        yield front, connect
    finally:
        for talk in talks:
            talk.writer.transport.abort()
        house.gate.set()
        front.abort()
        await front.stop()


GET = b"GET /a?b=c HTTP/1.1\r\nHost: h\r\n\r\n"


async def until(condition: Callable[[], bool]) -> None:
    """What the other side does raises no event here."""
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.01)
