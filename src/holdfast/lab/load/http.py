"""HTTP/1.1 messages as load clients send and parse them."""

import re

from msgspec import Struct

from holdfast.lab.load.failure import BenchFailed

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_RETRY_AFTER = re.compile(rb"\r\nretry-after: *(\d+)", re.IGNORECASE)
_NO_BODY = frozenset({b"204", b"304"})
# The header in which the edge reports the source of a response, in the two spellings in use.
_CACHE_HEADERS = (b"\r\nHoldfast-Cache: ", b"\r\nholdfast-cache: ")
JSON = b"Content-Type: application/json\r\n"


class Request(Struct, frozen=True):
    """`step` names the purpose. With `hang_up_s` the client closes the connection that long after it has sent it."""

    step: str
    method: str
    path: str
    headers: bytes = b""
    body: bytes = b""
    hang_up_s: float | None = None

    def encode(self, host: bytes) -> bytes:
        length = b"Content-Length: %d\r\n" % len(self.body) if self.method != "GET" else b""
        start = f"{self.method} {self.path} HTTP/1.1\r\n".encode()
        return b"".join((start, host, self.headers, length, b"\r\n", self.body))


class Response(Struct, frozen=True):
    """Status 0: no response. `due_at` is when the request should have been sent; latency counts from there."""

    status: int
    body: bytes = b""
    due_at: float = 0.0
    at: float = 0.0
    retry_after_s: float | None = None
    cache: str = ""
    """The value of `Holdfast-Cache`, such as `HIT` or `EDGE`; empty without that header."""

    @property
    def should_retry(self) -> bool:
        """A 429 without `rate_limited` means that a pass is missing: a retry would not help."""
        return self.status in (0, 503) or (self.status == 429 and b'"rate_limited"' in self.body)


def end_of_head(data: bytes) -> int | None:
    """The end of the head, or None until the whole response has arrived."""
    end = data.find(b"\r\n\r\n")
    return end if end >= 0 and len(data) >= end + 4 + _body_length(data, end) else None


def _body_length(data: bytes, end: int) -> int:
    found = _LENGTH.search(data, 0, end)
    if found is None and data[9:12] not in _NO_BODY:
        raise BenchFailed(f"the load client needs Content-Length in every response: {data[:end]!r}")
    return 0 if found is None else int(found[1])


def parse_response(data: bytes, end: int, due_at: float, at: float) -> Response:
    status = int(data[9:12])
    retry = _RETRY_AFTER.search(data, 0, end) if status in (429, 503) else None
    retry_after_s = None if retry is None else float(retry[1])
    return Response(status, data[end + 4 :], due_at, at, retry_after_s, _cache_of(data, end))


def _cache_of(data: bytes, end: int) -> str:
    for name in _CACHE_HEADERS:
        at = data.find(name, 0, end)
        if at >= 0:
            first = at + len(name)
            return data[first : data.find(b"\r\n", first)].decode("ascii", "replace")
    return ""
