"""HTTP spoken by hand, for what a well-behaved client would not do, and for crowds that one could not keep up with."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from http_serving import SERVICE_KEY, Server

ANSWER_S = 60.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Cut(Exception):
    """The connection ended before a whole answer came."""


def request_bytes(method: str, path: str, body: object = None, *headers: str, token: str = SERVICE_KEY) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: holdfast", f"Authorization: Bearer {token}", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(content)}", "", ""]).encode() + content


def parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *rest = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    fields = (line.partition(":") for line in rest)
    return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in fields}


class Line:
    """One keep-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, method: str, path: str, body: object = None) -> Answer:
        self._writer.write(request_bytes(method, path, body))
        async with asyncio.timeout(ANSWER_S):
            return await self.read()

    async def read(self) -> Answer:
        try:
            status, headers = parse_head(await self._reader.readuntil(b"\r\n\r\n"))
            return Answer(status, headers, await self._reader.readexactly(int(headers.get("content-length", "0"))))
        except (asyncio.IncompleteReadError, ConnectionError) as exc:
            raise Cut from exc


@asynccontextmanager
async def line_to(server: Server) -> AsyncIterator[Line]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield Line(reader, writer)
    finally:
        writer.transport.abort()


class Wire:
    """One connection, byte by byte, that blocks."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)

    def send(self, content: bytes) -> None:
        self._socket.sendall(content)

    def half_close(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def read_all(self) -> bytes:
        """Everything until the server hangs up, also if it does so by a reset."""
        received = b""
        try:
            while chunk := self._socket.recv(65536):
                received += chunk
        except ConnectionError:
            pass
        return received

    def read_answer(self) -> Answer:
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._more()
        head, _, body = received.partition(b"\r\n\r\n")
        status, headers = parse_head(head)
        while len(body) < int(headers.get("content-length", "0")):
            body += self._more()
        return Answer(status, headers, body)

    def _more(self) -> bytes:
        try:
            chunk = self._socket.recv(65536)
        except ConnectionError as exc:
            raise Cut from exc
        if not chunk:
            raise Cut
        return chunk

    def reset(self) -> None:
        """Hang up without a goodbye."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def close(self) -> None:
        self._socket.close()


@contextmanager
def wire_to(server: Server) -> Iterator[Wire]:
    wire = Wire(server.port)
    try:
        yield wire
    finally:
        wire.close()
