"""The values that fields have in common: IDs, text, times, amounts.

A pattern ends with `(?![\\s\\S])` because Python's `$` would let a final line break pass.
"""

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from msgspec import Meta

from holdfast.domain.stock.event_type import EVENT_PATTERNS
from holdfast.domain.stock.limits import MAX_HOLD_S, MAX_QUANTITY, MIN_TTL_MS
from holdfast.domain.stock.pool import SKU_PATTERN

END = r"(?![\s\S])"
# A control character has no place in an ID, and PostgreSQL cannot store all of them.
PRINTABLE = r"^[^\x00-\x1f\x7f]+" + END
# Line breaks and tabs are allowed where people read paragraphs.
TEXT = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*" + END
SKU = SKU_PATTERN.removesuffix("$") + END
RESERVATION = r"^rsv_[0-9a-f]{32}_" + SKU.removeprefix("^")
ORDER = r"^ord_[0-9a-f]{32}" + END
KEY = r"^[0-9a-f]{12}" + END
SESSION = r"^[0-9a-f]{16}" + END
EMAIL = r"^[^\x00-\x20\x7f@]+@[^\x00-\x20\x7f@]+" + END
CURRENCY = r"^[A-Z]{3}" + END
# One card or account. Whose it is, is not for the request to say.
METHOD = r"^(?!cus_)[A-Za-z0-9_.:~-]{1,200}" + END
URL = r"^(https?:/)?/[^\x00-\x20\x7f]+" + END

HTTP_URL = r"^https?://[^\x00-\x20\x7f\\@]+" + END
COLOUR = r"^#[0-9A-Fa-f]{6}" + END
CELL = r"^[a-z0-9][a-z0-9-]{0,31}" + END
LOCALE = r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}" + END

# What a message says instead of a pattern.
PATTERN_WORDS = {
    SKU: "must be letters, digits and . _ : ~ -, at most 100, a letter or digit first",
    RESERVATION: "must be a reservation id",
    ORDER: "must be an order id",
    KEY: "must be an ID of 12 hexadecimal digits",
    SESSION: "must be a session id",
    EMAIL: "must be an email address",
    METHOD: "must be the provider's ID of one card or account, as in pm_…; its customer comes from the buyer's token",
    CURRENCY: "must be three capital letters, as in EUR",
    URL: "must be a path or an http address",
    HTTP_URL: "must be an http or https address without a user name",
    COLOUR: "must be a colour as in #0f766e",
    CELL: "must be the name of a cell",
    LOCALE: "must be a language tag as in de or de-CH",
}

SkuId = Annotated[str, Meta(pattern=SKU)]
SaleId = Annotated[str, Meta(pattern=SKU)]
DropId = Annotated[str, Meta(pattern=SKU)]
CellName = Annotated[
    str, Meta(pattern=CELL, description="For servers with cells. A new sale goes to the emptiest.", examples=["a"])
]
UnavailableCells = Annotated[
    list[str], Meta(description="Cells that did not answer in time; the list lacks their items.")
]
OwnerId = Annotated[str, Meta(min_length=1, max_length=200, pattern=PRINTABLE)]
BuyerId = Annotated[str, Meta(min_length=1, max_length=200, pattern=PRINTABLE)]
# Any printable text is looked for; only what can be one is found.
AnyId = Annotated[str, Meta(min_length=1, max_length=200, pattern=PRINTABLE)]
ReservationId = Annotated[str, Meta(pattern=RESERVATION)]
OrderId = Annotated[str, Meta(pattern=ORDER)]
KeyId = Annotated[str, Meta(pattern=KEY)]
OperatorId = Annotated[str, Meta(pattern=KEY)]
SessionId = Annotated[str, Meta(pattern=SESSION)]
WebhookId = Annotated[str, Meta(min_length=1, max_length=100, pattern=PRINTABLE)]
IdempotencyKey = Annotated[
    str,
    Meta(min_length=1, max_length=255, pattern=PRINTABLE, description="Same key, same answer, for at least 24 hours."),
]
PaymentMethod = Annotated[
    str, Meta(pattern=METHOD, description="The provider's ID of the card or account.", examples=["pm_card_visa"])
]
Currency = Annotated[str, Meta(pattern=CURRENCY, description="ISO 4217.", examples=["EUR"])]
TtlSeconds = Annotated[int, Meta(ge=MIN_TTL_MS // 1000, le=MAX_HOLD_S)]
Quantity = Annotated[int, Meta(ge=1, le=MAX_QUANTITY)]
MinQuantity = Annotated[
    int, Meta(ge=1, le=MAX_QUANTITY, description="Accept fewer than `quantity`, but at least this many.")
]
Limit = Annotated[int, Meta(ge=1, le=100)]
Timestamp = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class Moment(int):
    """A time that was given as RFC 3339, in milliseconds since 1970."""


class EventPattern(str):
    """A type of event, `order.*` for all of a kind, or `*`."""

    __slots__ = ()


_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)\Z")
_FIRST_YEAR, _LAST_YEAR = 2000, 2199
_NO_MOMENT = "must be a time as in 2030-01-31T18:00:00Z"


def decode_custom(kind: type, value: Any) -> Any:
    """For msgspec: values that need more than a pattern."""
    if not isinstance(value, str):
        raise ValueError("must be a string")  # noqa: TRY004 - msgspec turns a ValueError into a ValidationError
    if kind is Moment:
        return _moment(value)
    if kind is EventPattern:
        return _event_pattern(value)
    raise NotImplementedError(kind)


def _moment(text: str) -> Moment:
    if not _MOMENT.match(text):
        raise ValueError(_NO_MOMENT)
    try:
        at = datetime.fromisoformat(text.upper())
    except ValueError as exc:
        raise ValueError(_NO_MOMENT) from exc
    if not _FIRST_YEAR <= at.year <= _LAST_YEAR:
        raise ValueError(f"must be in the years {_FIRST_YEAR} to {_LAST_YEAR}")
    return Moment(at.astimezone(UTC).timestamp() * 1000)


def _event_pattern(text: str) -> EventPattern:
    if text not in EVENT_PATTERNS:
        raise ValueError(f"{text!r} is not a type of event; use * or one of: {', '.join(sorted(EVENT_PATTERNS))}")
    return EventPattern(text)


def custom_schema(kind: type) -> dict[str, Any]:
    """For msgspec: how OpenAPI describes them."""
    if kind is Moment:
        return {"type": "string", "format": "date-time"}
    if kind is EventPattern:
        return {"type": "string", "enum": sorted(EVENT_PATTERNS)}
    raise NotImplementedError(kind)
