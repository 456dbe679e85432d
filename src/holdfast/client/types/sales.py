# Generated from the endpoint table by `make docs`. Do not edit.

"""Types of the resource `sales`."""

from datetime import datetime
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

from msgspec import Struct

if TYPE_CHECKING:
    Checkout = Literal["cart", "instant"]
    PaymentKind = Literal["external", "sandbox", "stripe", "wallet"]
    OversellPolicy = Literal["cancel_last", "fulfil_first", "report"]
    AfterAttempts = Literal["cancel", "park"]
    RoomMode = Literal["fifo", "lottery", "off"]
    SaleState = Literal["closed", "loading", "ready"]
    Phase = Literal["all_held", "ended", "open", "paused", "sold_out", "upcoming"]
else:
    Checkout = str
    PaymentKind = str
    OversellPolicy = str
    AfterAttempts = str
    RoomMode = str
    SaleState = str
    Phase = str


class PriceIn(TypedDict):
    amount: int
    currency: str


class BrandIn(TypedDict):
    """How the sale's page looks. All of it is optional."""

    name: NotRequired[str | None]
    logo_url: NotRequired[str | None]
    accent: NotRequired[str | None]
    background: NotRequired[str | None]
    message: NotRequired[str | None]


class RoomIn(TypedDict):
    mode: NotRequired[RoomMode]
    rate_per_second: NotRequired[int]
    pass_seconds: NotRequired[int]
    beacon: NotRequired[str | None]


class ProofOfWorkIn(TypedDict):
    cost: int


class Brand(Struct, frozen=True, kw_only=True):
    name: str | None = None
    logo_url: str | None = None
    accent: str | None = None
    background: str | None = None
    message: str | None = None


class Price(Struct, frozen=True, kw_only=True):
    amount: int
    currency: str


class Room(Struct, frozen=True, kw_only=True):
    mode: RoomMode
    rate_per_second: int
    pass_seconds: int
    beacon: str | None = None


class ProofOfWork(Struct, frozen=True, kw_only=True):
    cost: int


class OperatorSale(Struct, frozen=True, kw_only=True):
    sale_id: str
    sku_id: str
    name: str
    description: str | None = None
    image_url: str | None = None
    checkout_url: str | None = None
    brand: Brand | None = None
    locale: str | None = None
    price: Price
    starts_at: datetime
    ends_at: datetime | None = None
    per_buyer_limit: int | None = None
    hold_seconds: int
    max_hold_seconds: int
    required_tier: int | None = None
    payment_attempts_max: int
    checkout: Checkout
    payment: PaymentKind
    room: Room
    proof_of_work: ProofOfWork | None = None
    drop_id: str | None = None
    notify: bool
    state: SaleState
    problem: str | None = None  # Why the sale cannot finish loading.
    paused: bool
    phase: Phase  # The phase that buyers see at /now.
    hold_budget: int | None = None
    units_per_address: int | None = None
    purchase_attempts_max: int | None = None
    after_attempts: AfterAttempts
    oversell_policy: OversellPolicy
    review_above_percent: int
    buffer_units: int
    deliverable_units: int | None = None
    total_units: int | None = None  # Null if the pool cannot be read now, like the counts.
    available: int | None = None
    held: int | None = None
    sold: int | None = None
    created_at: datetime
    updated_at: datetime
    opened_at: datetime | None = None
    closed_at: datetime | None = None
    cell: str | None = None  # The cell it is sold in; null without cells.


class SalePage(Struct, frozen=True, kw_only=True):
    data: list[OperatorSale]
    has_more: bool
    unavailable_cells: list[str] | None = None  # Cells that did not answer in time; the list lacks their items.


class Sale(Struct, frozen=True, kw_only=True):
    """What everyone may know. Service keys with the scope `sales` see the rest too."""

    sale_id: str
    sku_id: str
    name: str
    description: str | None = None
    image_url: str | None = None
    checkout_url: str | None = None
    brand: Brand | None = None
    locale: str | None = None
    price: Price
    starts_at: datetime
    ends_at: datetime | None = None
    per_buyer_limit: int | None = None
    hold_seconds: int
    max_hold_seconds: int
    required_tier: int | None = None
    payment_attempts_max: int
    checkout: Checkout
    payment: PaymentKind
    room: Room
    proof_of_work: ProofOfWork | None = None
    drop_id: str | None = None
    notify: bool


class Lottery(Struct, frozen=True, kw_only=True):
    seed_hash: str
    seed: str | None = None  # Set after the draw.
    entrants: int | None = None  # Set once the list is closed.
    digest: str | None = None  # The digest of the closed list.
    beacon_source: str | None = None  # The public value that the draw waits for, as announced beforehand.
    beacon_value: str | None = None  # That value.
    beacon: str | None = None  # SHA-256 of the digest, a line feed, and the value or nothing.
    line_id: str | None = None  # In a drop: what tickets, entries and the draw name in place of the sale.


class SoldOut(Struct, frozen=True, kw_only=True):
    at: datetime  # When the last unit was paid.
    seconds: float  # The time from the opening until then.
    units: int  # How many units were sold.
    last_position: int | None = None  # The last position in line that bought. Null without a line or in a drop.


class Now(Struct, frozen=True, kw_only=True):
    sale_id: str
    state: Phase
    available_hint: int | None = None
    next_return_at: datetime | None = None  # If all is held, when the next unit may come back.
    opens_at: datetime
    next_poll_ms: int
    serving: int
    joined: int
    rate_per_second: int
    lottery: Lottery | None = None  # Null where the order is not drawn.
    sold_out: SoldOut | None = None  # The summary of a sold-out sale. Null until then.


class ChallengeFor(Struct, frozen=True, kw_only=True):
    sale: str
    buyer: str  # A hash of the buyer it is for; empty if no token was sent.
    level: int | None = None  # 2: the harder one.


class ChallengeParameters(
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "key_length": "keyLength",
        "key_prefix": "keyPrefix",
        "key_signature": "keySignature",
        "expires_at": "expiresAt",
    },
):
    """As ALTCHA's clients read it; the names are theirs."""

    algorithm: str
    cost: int  # Rounds of one attempt.
    key_length: int
    key_prefix: str  # The prefix of the key whose number is sought.
    nonce: str
    salt: str
    key_signature: str
    expires_at: int  # In seconds since 1970.
    data: ChallengeFor


class Challenge(Struct, frozen=True, kw_only=True):
    parameters: ChallengeParameters
    signature: str
