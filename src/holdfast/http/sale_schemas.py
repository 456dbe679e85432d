"""Sales and orders, as the contract has them."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from holdfast.domain.pool import MAX_TOTAL_UNITS, SKU_PATTERN, Pool
from holdfast.domain.reservation import MAX_HOLD_MS, MAX_QUANTITY, Reservation, Status
from holdfast.domain.sale import (
    MAX_AMOUNT,
    Checkout,
    OversellPolicy,
    PaymentKind,
    Phase,
    ProofOfWork,
    Room,
    RoomMode,
    Sale,
    SaleState,
)
from holdfast.http.room_schemas import LotteryOut
from holdfast.http.schemas import OwnerId, ReservationOut, SkuId, Timestamp, TtlSeconds, reservation_body
from holdfast.http.times import rfc3339

MOMENT_PATTERN = r"^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)$"
CURRENCY_PATTERN = r"^[A-Z]{3}$"
_FIRST_YEAR, _LAST_YEAR = 2000, 2199
# No control character but line breaks and tabs: it is shown to people, and not everything can be stored.
_TEXT = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"
_LINE = r"^[^\x00-\x1f\x7f]+$"
_URL = r"^(https?:/)?/[^\x00-\x20\x7f]+$"


def _is_moment(text: str) -> str:
    moment = datetime.fromisoformat(text.upper())
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise ValueError(f"must be in the years {_FIRST_YEAR} to {_LAST_YEAR}")
    return text


def millis(text: str) -> int:
    return int(datetime.fromisoformat(text.upper()).astimezone(UTC).timestamp() * 1000)


SaleId = Annotated[str, StringConstraints(pattern=SKU_PATTERN)]
Moment = Annotated[
    str,
    StringConstraints(pattern=MOMENT_PATTERN, max_length=40),
    AfterValidator(_is_moment),
    Field(json_schema_extra={"format": "date-time"}),
]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_LINE)]
Description = Annotated[str, StringConstraints(max_length=5_000, pattern=_TEXT)]
ImageUrl = Annotated[str, StringConstraints(max_length=2_000, pattern=_URL)]
Limit = Annotated[int, Field(ge=1, le=MAX_QUANTITY)]
Tier = Annotated[int, Field(ge=0, le=1_000_000)]


class _In(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Price(_In):
    amount: int = Field(
        ge=0, le=MAX_AMOUNT, description="In the smallest unit of the currency, for one unit.", examples=[4_999]
    )
    currency: str = Field(pattern=CURRENCY_PATTERN, description="ISO 4217.", examples=["EUR"])


class RoomIn(_In):
    mode: Literal["off", "fifo", "lottery"] = "off"
    rate_per_second: int = Field(default=2_000, ge=1, le=1_000_000)
    pass_seconds: int = Field(default=300, ge=1, le=86_400)

    def room(self) -> Room:
        return Room(RoomMode(self.mode), self.rate_per_second, self.pass_seconds)


class ProofOfWorkIn(_In):
    cost: int = Field(
        ge=1, le=10**9, description="Attempts it takes at most while nobody crowds; never more than a phone can do."
    )


class SaleIn(_In):
    sale_id: SaleId
    sku_id: SkuId = Field(examples=["sneaker-42"])
    name: Name = Field(examples=["Sneaker, size 42"])
    total_units: int = Field(
        ge=0, le=MAX_TOTAL_UNITS, description="All units of the pool, sold and held ones included."
    )
    price: Price
    starts_at: Moment = Field(examples=["2026-03-01T10:00:00Z"])
    ends_at: Moment | None = None
    per_buyer_limit: Limit | None = Field(default=1, description="Units one buyer may hold or have bought; null: any.")
    hold_seconds: TtlSeconds = 300
    max_hold_seconds: TtlSeconds | None = Field(
        default=None, description="How long a buyer may hold units in all, extensions included; default: 1800."
    )
    hold_budget: Limit | None = Field(
        default=None, description="After this many holds let go unpaid, a buyer gets no more."
    )
    checkout: Literal["cart", "instant"] = Field(
        default="cart", description="Hold first and pay in time, or pay at once."
    )
    payment: Literal["wallet", "sandbox", "stripe", "external"]
    oversell_policy: Literal["cancel_last", "fulfil_first", "report"] = "fulfil_first"
    required_tier: Tier | None = None
    description: Description | None = None
    image_url: ImageUrl | None = None
    room: RoomIn = RoomIn()
    proof_of_work: ProofOfWorkIn | None = None

    def sale(self) -> Sale:
        return Sale(
            sale_id=self.sale_id,
            sku_id=self.sku_id,
            loaded_units=self.total_units,
            max_hold_seconds=self.max_hold_seconds or MAX_HOLD_MS // 1000,
            **_terms(self, {"name", "hold_seconds", *_FIELDS}),
        )


class SalePatch(_In):
    """Left out: as it was. Null, where it may be: none."""

    name: Name | None = None
    description: Description | None = None
    image_url: ImageUrl | None = None
    price: Price | None = Field(default=None, description="Before the start only.")
    starts_at: Moment | None = Field(default=None, description="Before the start only.")
    ends_at: Moment | None = None
    per_buyer_limit: Limit | None = None
    hold_seconds: TtlSeconds | None = None
    max_hold_seconds: TtlSeconds | None = None
    hold_budget: Limit | None = None
    required_tier: Tier | None = None
    checkout: Literal["cart", "instant"] | None = Field(default=None, description="Before the start only.")
    payment: Literal["wallet", "sandbox", "stripe", "external"] | None = Field(
        default=None, description="Before the start only."
    )
    oversell_policy: Literal["cancel_last", "fulfil_first", "report"] | None = None
    room: RoomIn | None = None
    proof_of_work: ProofOfWorkIn | None = None

    def empty_fields(self) -> list[str]:
        """Those that are null and may not be."""
        return [name for name in sorted(self.model_fields_set - _NULLABLE) if getattr(self, name) is None]

    def changes(self) -> dict[str, Any]:
        return _terms(self, self.model_fields_set)


_NULLABLE = {
    "description", "image_url", "ends_at", "per_buyer_limit", "hold_budget", "required_tier", "proof_of_work",
}  # fmt: skip
_FIELDS = {*_NULLABLE, "price", "starts_at", "checkout", "payment", "oversell_policy", "room"}
_KINDS = {"checkout": Checkout, "payment": PaymentKind, "oversell_policy": OversellPolicy}


def _terms(given: SaleIn | SalePatch, names: set[str]) -> dict[str, Any]:
    """By the names the domain has for them."""
    terms: dict[str, Any] = {}
    for name in names:
        value = getattr(given, name)
        if isinstance(value, Price):
            terms |= {"price_amount": value.amount, "currency": value.currency}
        elif isinstance(value, RoomIn):
            terms[name] = value.room()
        elif isinstance(value, ProofOfWorkIn):
            terms[name] = ProofOfWork(value.cost)
        elif name in _KINDS:
            terms[name] = _KINDS[name](value)
        elif name in ("starts_at", "ends_at") and value is not None:
            terms[name] = millis(value)
        else:
            terms[name] = value
    return terms


class RestockIn(_In):
    units: int = Field(
        ge=-MAX_TOTAL_UNITS, le=MAX_TOTAL_UNITS, description="Units to add; a negative number takes free ones away."
    )


class ConfirmIn(_In):
    payment_method: OwnerId | None = Field(default=None, description="The provider's name for the card or account.")


class PurchaseIn(Struct, frozen=True, forbid_unknown_fields=True):
    """Decoded in the fast lane, by msgspec."""

    quantity: Annotated[int, Meta(ge=1, le=MAX_QUANTITY)]
    min_quantity: (
        Annotated[int, Meta(ge=1, le=MAX_QUANTITY, description="Take fewer than `quantity`, but at least this many.")]
        | None
    ) = None
    payment_method: (
        Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+(?![\s\S])")] | None
    ) = None


class SaleQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: int = Field(default=20, ge=1, le=100)
    starting_after: SaleId | None = Field(default=None, description="The last sale id of the page before.")


class _Out(BaseModel):
    """Describes an answer in the OpenAPI document; answers themselves are encoded directly."""


class PriceOut(_Out):
    amount: int
    currency: str


class RoomOut(_Out):
    mode: RoomMode
    rate_per_second: int
    pass_seconds: int


class ProofOfWorkOut(_Out):
    cost: int


class SaleOut(_Out):
    """What everyone may know. Service keys with the scope `sales` see the rest too."""

    sale_id: str
    sku_id: str
    name: str
    description: str | None
    image_url: str | None
    price: PriceOut
    starts_at: Timestamp
    ends_at: Timestamp | None
    per_buyer_limit: int | None
    hold_seconds: int
    max_hold_seconds: int
    required_tier: int | None
    checkout: Checkout
    payment: PaymentKind
    room: RoomOut
    proof_of_work: ProofOfWorkOut | None


class OperatorSaleOut(SaleOut):
    state: SaleState
    problem: str | None = Field(description="Why a sale that is loading does not go on.")
    paused: bool
    phase: Phase = Field(description="What buyers are told at /now.")
    hold_budget: int | None
    oversell_policy: OversellPolicy
    deliverable_units: int | None = Field(description="What can be delivered, if an operator said that it is too few.")
    total_units: int | None = Field(description="Null if the pool cannot be looked at now; so are the counts.")
    available: int | None
    held: int | None
    sold: int | None
    created_at: Timestamp
    updated_at: Timestamp
    opened_at: Timestamp | None
    closed_at: Timestamp | None


class SalePage(_Out):
    data: list[OperatorSaleOut]
    has_more: bool


class NowOut(_Out):
    sale_id: str
    state: Phase
    available_hint: int | None
    next_return_at: Timestamp | None = Field(description="If all is held, when the next unit may come back.")
    opens_at: Timestamp
    next_poll_ms: int
    serving: int
    joined: int
    rate_per_second: int
    lottery: LotteryOut | None = Field(description="Null where the order is not drawn.")


class PurchaseOut(_Out):
    reservation_id: str
    sale_id: str
    quantity: int
    status: Status
    expires_at: Timestamp
    amount: int
    currency: str
    receipt: str = Field(description="Proof that this was granted: a JWT that this server can read.")


class SaleReservationOut(ReservationOut):
    """A reservation in a sale."""

    sale_id: str
    amount: int = Field(description="What it costs in all, in the currency's smallest unit.")
    currency: str
    failure_reason: str | None = Field(
        None,
        description="Why the payment was refused, if it failed: insufficient_funds, card_declined, …",
    )


def _at(moment: int | None) -> str | None:
    return None if moment is None else rfc3339(moment)


def sale_body(sale: Sale) -> dict[str, Any]:
    return {
        "sale_id": sale.sale_id,
        "sku_id": sale.sku_id,
        "name": sale.name,
        "description": sale.description,
        "image_url": sale.image_url,
        "price": {"amount": sale.price_amount, "currency": sale.currency},
        "starts_at": rfc3339(sale.starts_at),
        "ends_at": _at(sale.ends_at),
        "per_buyer_limit": sale.per_buyer_limit,
        "hold_seconds": sale.hold_seconds,
        "max_hold_seconds": sale.max_hold_seconds,
        "required_tier": sale.required_tier,
        "checkout": sale.checkout,
        "payment": sale.payment,
        "room": structs.asdict(sale.room),
        "proof_of_work": None if sale.proof_of_work is None else {"cost": sale.proof_of_work.cost},
    }


def operator_sale_body(sale: Sale, pool: Pool | None, now: int) -> dict[str, Any]:
    return sale_body(sale) | {
        "state": sale.state,
        "problem": sale.problem,
        "paused": sale.paused,
        "phase": sale.phase(now, None if pool is None else pool.availability),
        "hold_budget": sale.hold_budget,
        "oversell_policy": sale.oversell_policy,
        "deliverable_units": sale.deliverable_units,
        "total_units": None if pool is None else pool.total,
        "available": None if pool is None else pool.available,
        "held": None if pool is None else pool.held,
        "sold": None if pool is None else pool.sold,
        "created_at": rfc3339(sale.created_at),
        "updated_at": rfc3339(sale.updated_at),
        "opened_at": _at(sale.opened_at),
        "closed_at": _at(sale.closed_at),
    }


def sold_reservation_body(reservation: Reservation, sale: Sale | None) -> dict[str, Any]:
    """Of a sale, it shows which one and what it costs."""
    body = reservation_body(reservation)
    if sale is None:
        return body
    price = {"sale_id": sale.sale_id, "amount": sale.amount_of(reservation.quantity), "currency": sale.currency}
    return body | price
