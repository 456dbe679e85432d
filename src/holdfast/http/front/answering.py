"""Answers as they go over the wire."""

from http import HTTPStatus

from holdfast.http.requests import Answer, Headers

_HEADS = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
# These have no body, whatever anybody says.
_BODILESS = frozenset({204, 304})
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
_CLOSE = "connection: close\r\n"
_KEEP = "connection: keep-alive\r\n"


def whole(answer: Answer, date: str, *, closes: bool, is_head: bool, says_keep: bool = False) -> bytes:
    """`date` is a header line. To HEAD the answer is what it would be to GET, without its body."""
    body = answer.body
    length = "" if answer.status in _BODILESS else f"content-length: {len(body)}\r\n"
    lines = _lines(answer.headers)
    if "content-length" in lines:
        lines = _lines([header for header in answer.headers if header[0] != "content-length"])
    connection = _CLOSE if closes else _KEEP if says_keep else ""
    head = f"{_HEADS[answer.status]}{lines}{length}{connection}{date}\r\n".encode("latin-1")
    return head if is_head or answer.status in _BODILESS else head + body


def opening(answer: Answer, date: str, *, closes: bool, in_chunks: bool) -> bytes:
    """The head of an answer whose body comes bit by bit."""
    framing = "transfer-encoding: chunked\r\n" if in_chunks else ""
    connection = _CLOSE if closes else ""
    return f"{_HEADS[answer.status]}{_lines(answer.headers)}{framing}{connection}{date}\r\n".encode("latin-1")


def chunk(portion: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(portion), portion)


def _lines(headers: Headers) -> str:
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if lines.count("\n") != len(headers) or lines.count("\r") != len(headers):
        raise ValueError("a header must not contain a line break")
    return lines
