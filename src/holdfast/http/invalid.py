"""What is wrong with a request, field by field, in the same words whoever found it: msgspec or pydantic."""

import re
from collections.abc import Mapping, Sequence

import msgspec
from pydantic_core import ErrorDetails

from holdfast.domain.pool import SKU_PATTERN
from holdfast.http.order_schemas import ORDER_ID_PATTERN
from holdfast.http.problems import Problem
from holdfast.http.sale_schemas import CURRENCY_PATTERN, MOMENT_PATTERN
from holdfast.http.schemas import RESERVATION_ID_PATTERN

_REQUIRED, _UNKNOWN, _NO_OBJECT = "is required", "is not known here", "must be an object"
_PRINTABLE = "must not contain control characters"
_PATTERNS = {
    SKU_PATTERN: "must be letters, digits and . _ : ~ -, at most 100, a letter or digit first",
    RESERVATION_ID_PATTERN: "must be a reservation id",
    ORDER_ID_PATTERN: "must be an order id",
    MOMENT_PATTERN: "must be a time as in 2030-01-31T18:00:00Z",
    CURRENCY_PATTERN: "must be three capital letters, as in EUR",
}
_OF_PYDANTIC = {
    "missing": _REQUIRED,
    "extra_forbidden": _UNKNOWN,
    "model_type": _NO_OBJECT,
    "model_attributes_type": _NO_OBJECT,
}
# These name a field in the text, and not as the place of the mistake.
_OF_MSGSPEC = {"Object missing required field `": _REQUIRED, "Object contains unknown field `": _UNKNOWN}
_JSON_WORDS = {
    "str": "a string", "int": "an integer", "float": "a number", "bool": "a boolean", "array": "an array",
    "object": "an object",
}  # fmt: skip


def invalid_request(wrong: Mapping[str, str]) -> Problem:
    """What is wrong with each field; the first one is the detail."""
    errors = [{"field": field, "message": message} for field, message in wrong.items()]
    detail = "{field}: {message}".format_map(errors[0])
    return Problem(422, "invalid_request", "The request is not valid", detail, errors=errors)


def from_decoding(error: msgspec.DecodeError | UnicodeDecodeError, whole: str = "body") -> Problem:
    """What msgspec found wrong with a body, or with a value by the name of `whole`."""
    if not isinstance(error, msgspec.ValidationError):
        return _not_json()
    message, _, place = str(error).partition(" - at `$")
    for said, meant in _OF_MSGSPEC.items():
        if message.startswith(said):
            return invalid_request({message.removeprefix(said).removesuffix("`"): meant})
    return invalid_request({place.strip("`.") or whole: _in_json_words(message)})


def from_validation(errors: Sequence[ErrorDetails]) -> Problem:
    """What pydantic found wrong."""
    if any(error["type"] == "json_invalid" for error in errors):
        return _not_json()
    return invalid_request({_field(error["loc"]): _in_our_words(error) for error in errors})


def _not_json() -> Problem:
    return Problem(400, "invalid_json", "The body is not JSON", "Send a JSON object as the body.")


def _in_json_words(message: str) -> str:
    if "matching regex" in message:
        return _PRINTABLE
    words = re.sub(r"`([^`]+)`", lambda types: _json_types(types[1]), message)
    return words.replace("Expected", "must be", 1).replace(", got ", ", not ", 1)


def _json_types(types: str) -> str:
    return " or ".join(_JSON_WORDS.get(one, one) for one in types.split(" | "))


def _field(place: tuple[int | str, ...]) -> str:
    """Its bare name: whether it is in the body, the query or the path is plain to whoever sent it."""
    return ".".join(map(str, place[1:] or place))


def _in_our_words(error: ErrorDetails) -> str:
    pattern = error.get("ctx", {}).get("pattern")
    if pattern is not None:
        return _PATTERNS.get(pattern, _PRINTABLE)
    said = (
        error["msg"]
        .removeprefix("Value error, ")
        .replace("Input should be", "must be", 1)
        .replace("String should have", "must have", 1)
    )
    return _OF_PYDANTIC.get(error["type"], said)
