"""One request on its way in: what has arrived of it, and whether its client is still there."""

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import unquote

from httptools import parse_url

from holdfast.http.problems import Problem
from holdfast.http.requests import (
    MAX_BODY_BYTES,
    MAX_HEADER_BYTES,
    CallerGone,
    Headers,
    Request,
    body_too_large,
    request_from,
)

if TYPE_CHECKING:
    from holdfast.http.front.connection import Connection

MAX_FIELDS = 100
# What is refused for its size has come this far beyond it at most.
_BODY_KEPT = MAX_BODY_BYTES + 1


class _Names(dict[bytes, str]):
    """Names of headers as we call them, by how they were written: nearly all clients write the same few."""

    def __missing__(self, written: bytes) -> str:
        name = written.lower().decode("latin-1")
        if len(self) < _NAMES_KEPT and len(written) <= _NAME_MAX:
            self[written] = name
        return name


_NAMES_KEPT, _NAME_MAX = 500, 100
_NAMES = _Names()


class Exchange:
    """What the request's handler sees of the client (`requests.Wire`)."""

    __slots__ = (
        "_arrival",
        "_body",
        "_connection",
        "expects_continue",
        "fields",
        "is_complete",
        "is_dispatched",
        "is_persistent",
        "is_whole_head",
        "method",
        "problem",
        "speaks_chunks",
        "target",
    )

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self.target = b""
        self.fields: list[tuple[bytes, bytes]] = []
        self.method = ""
        self.is_whole_head = self.is_dispatched = self.is_complete = False
        self.is_persistent = self.speaks_chunks = self.expects_continue = False
        self.problem: Problem | None = None
        self._body = b""
        self._arrival: asyncio.Future[None] | None = None

    # --- what the parser tells

    def head_arrived(self, method: str, *, is_persistent: bool, speaks_chunks: bool) -> None:
        self.is_whole_head = True
        self.method, self.is_persistent, self.speaks_chunks = method, is_persistent, speaks_chunks
        if is_persistent and not speaks_chunks and any(_NAMES[name] == "transfer-encoding" for name, _ in self.fields):
            # Proxies disagree about where such a request ends.
            self.is_persistent = False

    def body_arrived(self, part: bytes) -> None:
        """Of a body that is too large anyway, no more than shows it is kept."""
        if len(self._body) <= MAX_BODY_BYTES:
            self._body = self._body + part[:_BODY_KEPT] if self._body else part[:_BODY_KEPT]
        if len(self._body) > MAX_BODY_BYTES:
            self._wake()

    def all_arrived(self) -> None:
        self.is_complete = True
        self._wake()

    def spoil(self, problem: Problem) -> None:
        """The rest of it makes no sense."""
        self.problem = problem
        self._wake()

    def client_left(self) -> None:
        if not self.is_complete and self._arrival is not None and not self._arrival.done():
            self._arrival.set_exception(CallerGone())

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    # --- what the handler asks

    def request(self) -> Request:
        path, _, query = self.target.partition(b"?")
        if not path.startswith(b"/"):
            path, query = _from_absolute(self.target)
        text = path.decode("latin-1")
        # Of several of one name the first counts.
        headers = {_NAMES[name]: value.decode("latin-1") for name, value in reversed(self.fields)}
        if "expect" in headers and self.speaks_chunks:
            self.expects_continue = headers["expect"].rstrip(" \t").lower() == "100-continue"
        return request_from(
            self.method,
            unquote(text) if "%" in text or not text.isascii() else text,
            query.decode("latin-1"),
            self,
            headers.get,
            self._connection.peer,
        )

    def headers(self) -> Headers:
        return [(_NAMES[name], value.decode("latin-1").rstrip(" \t")) for name, value in self.fields]

    def head_without_upgrade(self) -> bytes:
        """As of a request that wishes for nothing but an answer, and for no further ones."""
        dropped = ("connection", "upgrade")
        kept = [b"%b: %b\r\n" % (name, value) for name, value in self.fields if _NAMES[name] not in dropped]
        version = b"1.1" if self.speaks_chunks else b"1.0"
        lines = b"".join(kept)
        return b"%b %b HTTP/%b\r\n%bconnection: close\r\n\r\n" % (self.method.encode(), self.target, version, lines)

    @property
    def has_long_head(self) -> bool:
        sizes = sum([len(name) + len(value) for name, value in self.fields])
        return sizes + len(self.target) > MAX_HEADER_BYTES

    @property
    def body(self) -> bytes | None:
        """All of it, if it has arrived."""
        return self._body if self.is_complete and len(self._body) <= MAX_BODY_BYTES else None

    async def read(self) -> bytes:
        if not self.is_complete and self.problem is None and len(self._body) <= MAX_BODY_BYTES:
            if self.expects_continue:
                self._connection.ask_for_body()
            if self._connection.is_left:
                raise CallerGone
            self._arrival = asyncio.get_running_loop().create_future()
            try:
                await self._arrival
            finally:
                # What it raised knows of us, and the collector comes rarely.
                self._arrival = None
        if self.problem is not None:
            raise self.problem
        if len(self._body) > MAX_BODY_BYTES:
            raise body_too_large()
        return self._body

    async def gone(self) -> None:
        await self._connection.left()


def _from_absolute(target: bytes) -> tuple[bytes, bytes]:
    """Clients of proxies name the whole address; `*` and the like are a path that nothing answers to."""
    try:
        parsed = parse_url(target)
    except Exception:
        return target, b""
    return parsed.path or b"/", parsed.query or b""
