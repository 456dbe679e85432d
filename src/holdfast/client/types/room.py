# Generated from the endpoint table by `make docs`. Do not edit.

"""Types of the resource `room`."""

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from holdfast.client.types.inventory import Reservation
from holdfast.client.types.sales import Lottery, PaymentKind, RoomMode

if TYPE_CHECKING:
    OrderStatus = Literal["cancelled", "confirmed", "fulfilled", "pending", "refunded"]
else:
    OrderStatus = str


class Place(Struct, frozen=True, kw_only=True):
    ticket: str
    position: int | None = None  # From 1. It is your turn when position ≤ serving. Null before a draw.
    serving: int  # How many places have been called.
    ahead: int | None = None  # People before you who have not been called. Null before a draw.
    eta_seconds: int | None = None  # Null while it is unknown, or while forecasts are degraded.
    odds: float | None = None
    likely_sold_out: bool  # Whether the chance is below 1 %. You may stay in line.
    degraded_features: list[str]  # `odds` while the server is under pressure and makes no forecasts.
    provisional: bool | None = None


class Pass(Struct, frozen=True, kw_only=True, rename={"pass_": "pass"}):
    pass_: str  # A JWT, to be sent as `Holdfast-Pass` with the purchase.
    expires_at: datetime


class Wait(Struct, frozen=True, kw_only=True):
    position: int | None = None
    serving: int
    retry_after_ms: int


class QuotedPrice(Struct, frozen=True, kw_only=True):
    """The quote that something was bought at."""

    quote_id: str
    amount: int
    currency: str
    base_amount: int  # The price in the sale's own currency.
    base_currency: str
    rate: str | None = None  # Null if the currency is the sale's own.
    quoted_at: datetime


class Order(Struct, frozen=True, kw_only=True):
    order_id: str
    reservation_id: str
    sale_id: str
    buyer_id: str
    quantity: int
    amount: int
    currency: str
    status: OrderStatus
    refunded_amount: int
    created_at: datetime
    updated_at: datetime
    confirmed_at: datetime | None = None  # When it was paid.
    number: str  # Short and readable, for people.
    unit_price: int
    tracking: str | None = None  # The tracking number, once it is fulfilled.
    payment: PaymentKind  # The provider; `external` if a service key confirmed.
    units_to_source: int  # Units of this order that are missing from the stock.
    quote: QuotedPrice | None = None  # The quote it was bought at, if there was one.


class Mine(Struct, frozen=True, kw_only=True, rename={"pass_": "pass"}):
    place: Place | None = None  # While you are in line, or have a pass.
    pass_: Pass | None = None  # While it is valid.
    reservations: list[Reservation] | None = None  # In this sale, newest first, at most 100.
    orders: list[Order] | None = None  # In this sale, newest first, at most 100.


class Pace(Struct, frozen=True, kw_only=True):
    rate_per_second: float
    speed_per_second: float
    shows: float  # The share of called people who request their pass.
    buys: float  # The share of passes that are used.
    units_each: float
    gate_latency_ms: float
    settlement_lag_ms: float
    available: int


class RoomFacts(Struct, frozen=True, kw_only=True):
    sale_id: str
    mode: RoomMode
    opened_at: datetime | None = None
    joined: int
    serving: int
    waiting: int
    called: int  # Recently called, without a pass yet.
    passes: int  # Issued, neither used nor expired.
    rate_per_second: int
    paused: bool
    admitting: int
    passes_given: int
    passes_used: int
    passes_lapsed: int
    calls_lapsed: int
    units_taken: int
    pace: Pace | None = None
    lottery: Lottery


class Key(Struct, frozen=True, kw_only=True):
    kty: str
    crv: str
    x: str
    kid: str
    alg: str
    use: str


class Jwks(Struct, frozen=True, kw_only=True):
    keys: list[Key]
