"""A server that answers any request as somebody would who wants to do harm: by drops, without end, or as a bomb."""

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache

BOMB_BYTES = 100 * 1024 * 1024
DRIP_S = 0.02
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
Attack = Callable[[asyncio.StreamWriter], Awaitable[None]]


@cache
def bomb() -> bytes:
    """A hundred kilobytes that unpack to a thousand times as much."""
    return gzip.compress(b" " * BOMB_BYTES, 9)


async def drip_headers(writer: asyncio.StreamWriter) -> None:
    await _drip(writer, b"HTTP/1.1 200 OK\r\nx-filler: ")


async def drip_body(writer: asyncio.StreamWriter) -> None:
    await _drip(writer, _HEAD + b"content-length: 1000000\r\n\r\n")


async def _drip(writer: asyncio.StreamWriter, first: bytes) -> None:
    writer.write(first)
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(DRIP_S)


async def never_end(writer: asyncio.StreamWriter) -> None:
    writer.write(_HEAD + b"\r\n")
    for _ in range(BOMB_BYTES // 65_536):
        writer.write(b" " * 65_536)
        await writer.drain()


async def throw_bomb(writer: asyncio.StreamWriter) -> None:
    writer.write(_HEAD + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b" % (len(bomb()), bomb()))
    await writer.drain()


ATTACKS: dict[str, Attack] = {
    "drip_headers": drip_headers,
    "drip_body": drip_body,
    "never_end": never_end,
    "throw_bomb": throw_bomb,
}


@asynccontextmanager
async def attacking(attack: Attack) -> AsyncIterator[str]:
    clients: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        clients.add(task)
        with suppress(ConnectionError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
            await attack(writer)
        clients.discard(task)
        writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for client in clients:
            client.cancel()
        await server.wait_closed()


@asynccontextmanager
async def memory_bounded(most: int) -> AsyncIterator[None]:
    """Fails if the process had this much more in memory at any time meanwhile."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < most, f"{(peak - before) / 1024 / 1024:.0f} MiB more"
