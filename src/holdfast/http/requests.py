"""A request and its answer, whichever way they came in."""

import itertools
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import ClassVar, Protocol

from msgspec import Struct

from holdfast.http.console.cookie import session_in
from holdfast.http.identity import Caller
from holdfast.http.problems import Problem

Headers = list[tuple[str, str]]

MAX_BODY_BYTES = 16 * 1024
MAX_HEADER_BYTES = 64 * 1024
_REQUEST_ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")

# Unique across processes by the first part and within one by the second; a UUID for each would cost more than it tells.
_PROCESS = secrets.token_hex(6)
_number = itertools.count(1)


class CallerGone(Exception):
    """The client hung up; there is nobody to answer."""


class Wire(Protocol):
    """The client's end, as the server protocol in use offers it."""

    def headers(self) -> Headers:
        """All headers, names in lower case."""

    def peer(self) -> str:
        """The address at the other end of the connection, with its port; perhaps a proxy's."""

    # What `read` raises if the connection broke off.
    BROKEN: ClassVar[type[Exception]]

    def read(self) -> Awaitable[bytes]:
        """The whole body. Raises `BROKEN`, or a `Problem` if there is too much of it."""

    async def gone(self) -> None:
        """Returns when the client has hung up."""


class Request(Struct, eq=False):
    method: str
    path: str
    query: str
    wire: Wire
    request_id: str
    authorization: str | None = None
    caller: Caller | None = None
    """Whose authorization it is, once that is known."""
    idempotency_key: str | None = None
    content_length: int = 0
    has_body: bool = False
    body: bytes = b""


class Answer(Struct):
    status: int
    headers: Headers
    body: bytes
    # What follows the head as it comes, instead of a body.
    stream: AsyncGenerator[bytes, None] | None = None


def request_from(method: str, path: str, query: str, wire: Wire, header: Callable[[str], str | None]) -> Request:
    """`header` gives the value of a header by its name in lower case."""
    length = header("content-length") or "0"
    return Request(
        method,
        path,
        query,
        wire,
        request_id_from(header("x-request-id")),
        header("authorization") or session_in(method, header),
        None,
        header("idempotency-key"),
        int(length) if length.isdecimal() else 0,
        length != "0" or header("transfer-encoding") is not None,
    )


def header_of(request: Request, name: str) -> str | None:
    """The value of a header by its name in lower case."""
    return next((value for given, value in request.wire.headers() if given == name), None)


def refuse(problem: Problem) -> Answer:
    return Answer(problem.status, problem.headers(), problem.body())


def request_id_from(given: str | None) -> str:
    """The client's own id if it is one we can repeat safely, else a new one."""
    if given is not None and 0 < len(given) <= 64 and _REQUEST_ID_CHARACTERS.issuperset(given):
        return given
    return f"{_PROCESS}-{next(_number):x}"


def body_too_large() -> Problem:
    return Problem(413, "body_too_large", "Body too large", f"Send at most {MAX_BODY_BYTES} bytes.")


def headers_too_large() -> Problem:
    return Problem(431, "headers_too_large", "Headers too large", f"Send at most {MAX_HEADER_BYTES} bytes of headers.")
