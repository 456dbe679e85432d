"""A crowd that joins a line over raw sockets, goes elsewhere when a server is gone, and notes when it was told what."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import accumulate

BUYER_SECRET = "b0ye45ec" * 4
SIGNING_KEY = "first:" + "5" * 32
CONNECTIONS = 40
_HEAD = base64.urlsafe_b64encode(b'{"alg":"HS256"}').rstrip(b"=")


def buyer_token(buyer_id: str) -> str:
    claims = json.dumps({"sub": buyer_id, "exp": int(time.time()) + 3_600}).encode()
    signed = _HEAD + b"." + base64.urlsafe_b64encode(claims).rstrip(b"=")
    mac = hmac.new(BUYER_SECRET.encode(), signed, hashlib.sha256).digest()
    return (signed + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")).decode()


@dataclass(frozen=True)
class Told:
    buyer_id: str
    position: int
    asked_at: float
    told_at: float


@dataclass
class Crowd:
    """`ports` are those of servers; a client that loses one goes to the next."""

    sale_id: str
    ports: Sequence[int]
    on_progress: Callable[[int], None] = lambda _: None
    told: list[Told] = field(default_factory=list)
    retries: int = 0

    async def join(self, buyers: Sequence[str]) -> list[Told]:
        workers = [self._work(number, buyers[number::CONNECTIONS]) for number in range(CONNECTIONS)]
        await asyncio.gather(*workers)
        return self.told

    async def _work(self, number: int, buyers: Sequence[str]) -> None:
        async with AsyncExitStack() as opened:
            at, line = number, None
            for buyer_id in buyers:
                asked_at, position = time.monotonic(), 0
                while not position:
                    try:
                        if line is None:
                            line = await opened.enter_async_context(_line_to(self.ports[at % len(self.ports)]))
                        position = await line.join(self.sale_id, buyer_id)
                    except (OSError, asyncio.IncompleteReadError, _NotNow):
                        at, line, self.retries = at + 1, None, self.retries + 1
                        await asyncio.sleep(0.02)
                self.told.append(Told(buyer_id, position, asked_at, time.monotonic()))
                self.on_progress(len(self.told))


class _NotNow(Exception):
    """503: to be asked again."""


class _Line:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def join(self, sale_id: str, buyer_id: str) -> int:
        self._writer.write(
            f"POST /v1/sales/{sale_id}/queue HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
            f"Authorization: Bearer {buyer_token(buyer_id)}\r\n\r\n".encode()
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = await self._reader.readexactly(length)
        status = int(head[9:12])
        if status == 503:
            raise _NotNow
        assert status == 200, body
        return int(json.loads(body)["position"])


@asynccontextmanager
async def _line_to(port: int) -> AsyncIterator[_Line]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield _Line(reader, writer)
    finally:
        writer.transport.abort()


def is_in_arrival_order(told: Sequence[Told]) -> bool:
    """Nobody who asked after another was told stands before them."""
    ordered = sorted(told, key=lambda one: one.position)
    latest_asked = accumulate((one.asked_at for one in ordered), max)
    return all(asked <= one.told_at for asked, one in zip(latest_asked, ordered, strict=True))
