"""RSGI, granian's own protocol.

A bare handler answers about a quarter more requests this way than through granian's ASGI, because a request arrives as
one object and an answer leaves in one call (docs/adr/0003-rsgi-on-granian.md).
"""

from collections.abc import Awaitable
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from holdfast.http.contract import problems
from holdfast.http.contract.message import Answer, Headers, Request, unreadable
from holdfast.http.contract.problem import Problem
from holdfast.http.server.reading import request_from
from holdfast.http.server.sending import send_while_connected


class Answering(Protocol):
    async def answer(self, request: Request) -> Answer | None:
        """None if the client has disconnected."""

    def refuse_unread(self, problem: Problem, request_id: str | None) -> Answer:
        """For a request that could not be read."""


class RsgiApp:
    def __init__(self, app: Answering) -> None:
        self.app = app

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        # Once: granian copies all headers each time they are read.
        headers = scope.headers
        client = RsgiConnection(scope, headers, protocol)
        try:
            request = request_from(scope.method, scope.path, scope.query_string, client, headers)
        except Problem as problem:
            answer: Answer | None = self.app.refuse_unread(problem, headers.get("x-request-id"))
        else:
            answer = await self.app.answer(request)
        if answer is not None and answer.stream is not None:
            transport = protocol.response_stream(answer.status, answer.headers)
            await send_while_connected(answer.stream, client, transport.send_bytes)
        elif answer is not None:
            protocol.response_bytes(answer.status, answer.headers, answer.body)


class RsgiConnection(Struct, eq=False):
    scope: Any
    received: Any
    protocol: Any

    # What granian raises for a connection that broke off.
    BROKEN: ClassVar[type[Exception]] = RuntimeError

    def headers(self) -> Headers:
        items: Headers = self.received.items()
        return items

    def unreadable(self) -> list[str]:
        """The names of headers whose value cannot be read."""
        return [name for name in self.received.keys() if self.received.get(name) is None]  # noqa: SIM118 - no dict

    def header(self, name: str) -> str | None:
        value: str | None = self.received.get(name)
        if value is None and name in self.received:
            raise unreadable(name)
        return value

    def header_lines(self, name: str) -> list[str]:
        self.header(name)
        lines: list[str] = self.received.get_all(name)
        return lines

    def peer(self) -> str:
        address: str = self.scope.client
        return address

    def read(self) -> Awaitable[bytes]:
        body: Awaitable[bytes] = self.protocol() if "content-length" in self.received else self._read_chunks()
        return body

    async def _read_chunks(self) -> bytes:
        body = b""
        async for chunk in self.protocol:
            body += chunk
            if len(body) > problems.MAX_BODY_BYTES:
                raise Problem(problems.BODY_TOO_LARGE)
        return body

    async def wait_disconnected(self) -> None:
        await self.protocol.client_disconnect()
