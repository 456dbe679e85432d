"""One API call before it is sent, and how its response is parsed. No I/O happens here."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, Generic, TypeVar
from urllib.parse import quote
from uuid import uuid4

import msgspec
from msgspec import UNSET, Struct, UnsetType

from holdfast.client.errors import UnexpectedAnswer

T = TypeVar("T")
# The meaning of a status: types of objects, tried in this order; a text; or nothing.
Answers = Mapping[int, tuple[type, ...]]


class Call(Struct, Generic[T], frozen=True, kw_only=True, eq=False):
    """The request, and the possible responses. `T` is the type that the caller gets."""

    method: str
    path: str
    answers: Answers
    query: Mapping[str, Any] = {}
    headers: Mapping[str, str | None] = {}
    body: Mapping[str, Any] | None = None
    # The idempotency key by which the server recognises a retry.
    idempotency_key: str | None = None
    # Whether it may be sent again if it is unknown whether it was carried out.
    is_repeatable: bool = True

    @property
    def wait_s(self) -> int:
        """How long the server may wait before it responds: a long poll."""
        wait: int | UnsetType = self.query.get("wait", UNSET)
        return 0 if wait is UNSET else wait

    def given_query(self) -> dict[str, str]:
        return {name: _text(value) for name, value in self.query.items() if value is not UNSET}

    def given_headers(self) -> dict[str, str]:
        return {name: value for name, value in self.headers.items() if value is not None}

    def content(self) -> bytes | None:
        if self.body is None:
            return None
        return msgspec.json.encode({name: value for name, value in self.body.items() if value is not UNSET})

    def read(self, status: int, content: bytes) -> Any:
        """The response as an object. Fields that this version does not know are ignored."""
        kinds = self.answers.get(status)
        if kinds is None:
            raise UnexpectedAnswer(f"{self.method} {self.path} answered {status}, which this client does not know.")
        if not kinds:
            return None
        return content.decode() if kinds == (str,) else _first_fitting(kinds, content)


def _first_fitting(kinds: tuple[type, ...], content: bytes) -> Any:
    reason: msgspec.DecodeError | None = None
    for kind in kinds:
        try:
            return _decoder(kind).decode(content)
        except msgspec.DecodeError as exc:
            reason = exc
    raise UnexpectedAnswer(f"The answer is not a {kinds[-1].__name__}: {reason}") from reason


@cache
def _decoder(kind: type) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)


def path_of(template: str, *values: str) -> str:
    """The path with its parameters, in order. A slash in an ID stays part of the ID."""
    parts = iter(values)
    return "/".join(quote(next(parts), safe="") if part.startswith("{") else part for part in template.split("/"))


def optional(value: T | None) -> T | UnsetType:
    """Leaves out a field that is None, where a missing field and null mean the same."""
    return UNSET if value is None else value


def new_key() -> str:
    """An idempotency key for a call without one, so that a retried call is carried out once."""
    return f"auto-{uuid4().hex}"
