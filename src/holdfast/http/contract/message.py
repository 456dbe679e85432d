"""A request and its answer, whichever server protocol they came by."""

from collections.abc import AsyncGenerator, Awaitable
from time import monotonic
from typing import ClassVar, Protocol

import msgspec
from msgspec import Struct, field

from holdfast.access.identity import Caller
from holdfast.http.contract import problems
from holdfast.http.contract.problem import NO_STORE, NOSNIFF, Problem

Headers = list[tuple[str, str]]

JSON = ("content-type", "application/json")
PRIVATE_JSON = (JSON, NO_STORE, NOSNIFF)
SEEN = "holdfast-seen"
REPLAYED = ("idempotency-replayed", "true")

encode = msgspec.json.Encoder().encode


class ClientDisconnected(Exception):
    """The client closed the connection, so there is no one to answer."""


class ClientConnection(Protocol):
    """The client's end, as the server protocol in use offers it."""

    def headers(self) -> Headers:
        """All headers that can be read, names in lower case."""

    def header(self, name: str) -> str | None:
        """The first value of a header by its name in lower case. Raises a `Problem` if it cannot be read."""

    def header_lines(self, name: str) -> list[str]:
        """All values of a header. Raises a `Problem` if the first cannot be read."""

    def peer(self) -> str:
        """The address at the other end of the connection, with its port; perhaps a proxy's."""

    # What `read` raises if the connection broke off.
    BROKEN: ClassVar[type[Exception]]

    def read(self) -> Awaitable[bytes]:
        """The whole body. Raises `BROKEN`, or a `Problem` if it is too large."""

    async def wait_disconnected(self) -> None:
        """Returns when the client has disconnected."""


class Request(Struct, eq=False):
    method: str
    path: str
    query: str
    connection: ClientConnection
    request_id: str
    authorization: str | None = None
    # The caller, once authenticated.
    caller: Caller | None = None
    idempotency_key: str | None = None
    content_length: int = 0
    has_body: bool = False
    body: bytes = b""
    # Why the authorization was refused, if it was.
    unauthorized: str | None = None
    # When it arrived, by the monotonic clock, which all processes of a host share.
    arrived: float = field(default_factory=monotonic)
    # It is shed under load, but its endpoint has an answer that costs hardly more than a refusal.
    is_shed: bool = False

    def header(self, name: str) -> str | None:
        """The value of a header by its name in lower case."""
        return self.connection.header(name)


class Answer(Struct):
    status: int
    headers: Headers
    body: bytes
    # A stream of portions after the head, instead of a body.
    stream: AsyncGenerator[bytes, None] | None = None


def unreadable(name: str) -> Problem:
    """Dropping it instead would be worse: a repeat without its key is carried out twice."""
    return Problem(problems.INVALID_HEADER, f"The value of the header `{name}` cannot be read: use ASCII characters.")


def caller_of(request: Request) -> Caller:
    """Known wherever the endpoint table asks for one."""
    assert request.caller is not None
    return request.caller


def buyer_of(request: Request) -> str:
    """Known wherever the endpoint table lets only buyers in."""
    assert request.caller is not None
    assert request.caller.buyer_id is not None
    return request.caller.buyer_id


def seen_by(request: Request) -> str | None:
    """The token of the caller's last write, which their reads must include."""
    return request.header(SEEN)


def json(body: object, status: int = 200, *headers: tuple[str, str]) -> Answer:
    """For one caller only: never cached, and never shown as a page by a browser."""
    return Answer(status, [*PRIVATE_JSON, *headers], encode(body))


def no_content() -> Answer:
    return Answer(204, [], b"")


def refuse(problem: Problem) -> Answer:
    return Answer(problem.status, problem.headers(), problem.body())
