"""A request as the server protocols hand it over."""

import itertools
import secrets
from typing import Protocol

from holdfast.http.contract import problems
from holdfast.http.contract.message import ClientConnection, Request, unreadable
from holdfast.http.contract.problem import Problem
from holdfast.http.protection.session_cookie import session_in

_REQUEST_ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
# Of a `Content-Length`: more than any body has, and far less than what `int` refuses to read.
_DIGITS_MAX = 18

# Unique across processes by the first part and within one by the second; a UUID for each would cost more than it tells.
_PROCESS = secrets.token_hex(6)
_number = itertools.count(1)


class ReadHeaders(Protocol):
    """By name in lower case. A header whose value cannot be read is contained, and has no value."""

    def get(self, name: str, /) -> str | None: ...

    def __contains__(self, name: object, /) -> bool: ...


def request_from(method: str, path: str, query: str, client: ClientConnection, headers: ReadHeaders) -> Request:
    """Raises a `Problem` if it cannot be read."""
    if len(path) > problems.MAX_PATH_CHARACTERS:
        raise Problem(problems.PATH_TOO_LONG)
    get = headers.get
    authorization, key, length = get("authorization"), get("idempotency-key"), get("content-length") or "0"
    if key is None and "idempotency-key" in headers:
        raise unreadable("idempotency-key")
    if authorization is None:
        if "authorization" in headers:
            raise unreadable("authorization")
        authorization = session_in(method, client.header)
    if len(length) > _DIGITS_MAX or not length.isdecimal():
        raise Problem(problems.INVALID_HEADER, "The header `content-length` is not a length.")
    return Request(
        method,
        path,
        query,
        client,
        request_id_from(get("x-request-id")),
        authorization,
        None,
        key,
        int(length),
        length != "0" or get("transfer-encoding") is not None,
    )


def request_id_from(given: str | None) -> str:
    """The client's own ID if it can be repeated safely, else a new one."""
    if given is not None and 0 < len(given) <= 64 and _REQUEST_ID_CHARACTERS.issuperset(given):
        return given
    return f"{_PROCESS}-{next(_number):x}"
