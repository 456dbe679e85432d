"""Reads bodies and queries. A valid request is decoded in one step. An invalid one is checked field by field, because
msgspec stops at the first error and callers want to see all of them."""

import re
from collections.abc import Callable
from enum import Enum
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct, UnsetType, structs

from holdfast.http.contract import problems
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.refusals import invalid_request
from holdfast.http.contract.schemas.values import PATTERN_WORDS, decode_custom

Wrong = dict[str, str]

_REQUIRED, _UNKNOWN = "is required", "unknown field"
_PRINTABLE = "must not contain control characters"
_BOOLEANS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_INTEGER = re.compile(r"-?[0-9]{1,18}\Z")
_JSON_WORDS = {
    "str": "a string", "int": "an integer", "float": "a number", "bool": "a boolean", "array": "an array",
    "object": "an object",
}  # fmt: skip


class BodyDecoder:
    def __init__(self, kind: Any, *, is_required: bool) -> None:
        self._kind = kind
        self._decode = msgspec.json.Decoder(kind if is_required else kind | None, dec_hook=decode_custom).decode
        self._empty = None if is_required else kind()

    def decode(self, body: bytes) -> Any:
        """The body as its Struct. Raises msgspec's error or UnicodeDecodeError; `wrong_in` then says what is wrong."""
        if not body:
            if self._empty is None:
                raise msgspec.ValidationError(_REQUIRED)
            return self._empty
        given = self._decode(body)
        return self._empty if given is None else given

    def wrong_in(self, body: bytes) -> Wrong:
        """Every mistake, by field. Raises a problem if it is not JSON at all."""
        if not body:
            return {} if self._empty is not None else {"body": _REQUIRED}
        try:
            given = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            given = msgspec.UNSET
        try:
            self._decode(body)
        except msgspec.ValidationError as exc:
            # Values that only the typed decoder can read, such as a number beyond any float, have one error to report.
            return (wrong_in(self._kind, given) if given is not msgspec.UNSET else {}) or _of_error(exc, "body")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise Problem(problems.INVALID_JSON) from exc
        return {}


class QueryDecoder:
    """Everything in a query is text: numbers are read by the type of their field, and nothing is coerced further."""

    def __init__(self, kind: type[Struct]) -> None:
        self._kind = kind
        fields = structs.fields(kind)
        self._readers = {field.encode_name: _reader(field.type) for field in fields}
        # Most requests have no query.
        self._empty = None if any(field.required for field in fields) else kind()

    def read(self, query: str) -> dict[str, Any]:
        return {
            name: self._readers.get(name, str)(value)
            for name, value in parse_qsl(query, keep_blank_values=True, errors="replace")
        }

    def decode(self, query: str) -> Any:
        if not query and self._empty is not None:
            return self._empty
        return msgspec.convert(self.read(query), self._kind, dec_hook=decode_custom)

    def wrong_in(self, query: str) -> Wrong:
        return wrong_in(self._kind, self.read(query))


def _reader(kind: Any) -> Callable[[str], Any]:
    options = {_bare(option) for option in _options(kind)}
    if int in options:
        return lambda text: int(text) if _INTEGER.match(text) else text
    if bool in options:
        return lambda text: _BOOLEANS.get(text.lower(), text)
    return str


def read_as(kind: type[Any], given: dict[str, Any]) -> Any:
    """A Struct from plain values. Raises the problem that names every wrong field."""
    try:
        return msgspec.convert(given, kind, dec_hook=decode_custom)
    except msgspec.ValidationError as exc:
        raise invalid_request(wrong_in(kind, given)) from exc


def wrong_value(kind: Any, value: Any, name: str) -> Wrong:
    """What is wrong with one value, if anything."""
    try:
        msgspec.convert(value, kind, dec_hook=decode_custom)
    except msgspec.ValidationError as exc:
        return _of_error(exc, name, kind)
    return {}


def wrong_in(kind: type[Struct], given: Any, place: str = "") -> Wrong:
    """Every mistake in what should be an object of this kind, by the path of its field."""
    if not isinstance(given, dict):
        return wrong_value(kind, given, place or "body")
    wrong: Wrong = {}
    fields = {field.encode_name: field for field in structs.fields(kind)}
    for name, field in fields.items():
        path = f"{place}.{name}" if place else name
        if name not in given:
            if field.required:
                wrong[path] = _REQUIRED
            continue
        inner = _struct_in(field.type)
        if inner is not None and isinstance(given[name], dict):
            wrong |= wrong_in(inner, given[name], path)
        else:
            wrong |= wrong_value(_without_unset(field.type), given[name], path)
    if kind.__struct_config__.forbid_unknown_fields:
        wrong |= {f"{place}.{name}" if place else name: _UNKNOWN for name in given if name not in fields}
    # Valid fields may still contradict each other, which `__post_init__` checks.
    return wrong or wrong_value(kind, given, place or "body")


def _of_error(error: msgspec.ValidationError, name: str, kind: Any = None) -> Wrong:
    message, _, place = str(error).partition(" - at `$")
    inside = re.sub(r"\[(\d+)\]", r".\1", place.strip("`"))
    return {inside.strip(".") if name == "body" and inside else name + inside: _words(message, kind)}


def _words(message: str, kind: Any) -> str:
    if "matching regex" in message:
        return next((words for pattern, words in PATTERN_WORDS.items() if repr(pattern) in message), _PRINTABLE)
    if message.startswith("Invalid enum value"):
        choices = [repr(choice) for choice in _choices(kind)]
        return f"must be {', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else message
    words = re.sub(r"`([^`]+)`", lambda types: _json_types(types[1]), message)
    return words.replace("Expected", "must be", 1).replace(", got ", ", not ", 1)


def _json_types(types: str) -> str:
    return " or ".join(_JSON_WORDS.get(one, one) for one in types.split(" | "))


def _choices(kind: Any) -> list[str]:
    for option in _options(kind):
        bare = _bare(option)
        if get_origin(bare) is Literal:
            return list(get_args(bare))
        if get_origin(bare) is list:
            return _choices(get_args(bare)[0])
        if isinstance(bare, type) and issubclass(bare, Enum):
            return [str(member.value) for member in bare]
    return []


def _options(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _bare(kind: Any) -> Any:
    """The type without `Annotated`."""
    return get_args(kind)[0] if hasattr(kind, "__metadata__") else kind


def _without_unset(kind: Any) -> Any:
    options = tuple(option for option in _options(kind) if option is not UnsetType)
    return Union[options] if len(options) < len(_options(kind)) else kind  # noqa: UP007 - made at run time


def _struct_in(kind: Any) -> type[Struct] | None:
    found = [_bare(option) for option in _options(kind)]
    return next((one for one in found if isinstance(one, type) and issubclass(one, Struct)), None)
