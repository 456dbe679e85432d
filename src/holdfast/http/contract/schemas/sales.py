"""Sales: what operators say about them, and what is shown of them."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from holdfast.domain.sale.brand import Brand
from holdfast.domain.sale.sale import (
    MAX_AMOUNT,
    AfterAttempts,
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
from holdfast.domain.stock.limits import MAX_HOLD_S, MAX_QUANTITY, MAX_TOTAL_UNITS
from holdfast.domain.stock.pool import Pool
from holdfast.domain.stock.reservation import Status
from holdfast.http.contract.schemas.copying import copy_fields
from holdfast.http.contract.schemas.values import (
    COLOUR,
    HTTP_URL,
    LOCALE,
    PRINTABLE,
    TEXT,
    URL,
    CellName,
    Currency,
    DropId,
    Limit,
    MinQuantity,
    Moment,
    PaymentMethod,
    Quantity,
    SaleId,
    SkuId,
    Timestamp,
    TtlSeconds,
    UnavailableCells,
)

Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=PRINTABLE, examples=["Sneaker, size 42"])]
Description = Annotated[str, Meta(max_length=5_000, pattern=TEXT)]
ImageUrl = Annotated[str, Meta(max_length=2_000, pattern=URL)]
CheckoutUrl = Annotated[
    str,
    Meta(
        max_length=1_000,
        pattern=HTTP_URL,
        description="Your own checkout: external carts link to it, with `reservation_id`. "
        "Its origin must be in `HOLDFAST_ALLOWED_ORIGINS`.",
        examples=["https://shop.example.com/checkout"],
    ),
]
Locale = Annotated[
    str, Meta(pattern=LOCALE, description="Language of the page unless the visitor chooses.", examples=["de"])
]
Colour = Annotated[str, Meta(pattern=COLOUR, examples=["#0f766e"])]
Units = Annotated[int, Meta(ge=1, le=MAX_QUANTITY)]
Percent = Annotated[int, Meta(ge=0, le=100)]
SpareUnits = Annotated[int, Meta(ge=0, le=MAX_TOTAL_UNITS)]
PaymentAttempts = Annotated[int, Meta(ge=1, le=20)]
Tier = Annotated[int, Meta(ge=0, le=1_000_000)]
StartsAt = Annotated[Moment, Meta(examples=["2026-03-01T10:00:00Z"])]


class PriceIn(Struct, frozen=True, forbid_unknown_fields=True):
    amount: Annotated[
        int,
        Meta(ge=0, le=MAX_AMOUNT, description="In the smallest unit of the currency, for one unit.", examples=[4_999]),
    ]
    currency: Currency


class RoomIn(Struct, frozen=True, forbid_unknown_fields=True):
    mode: RoomMode = RoomMode.OFF
    rate_per_second: Annotated[int, Meta(ge=1, le=1_000_000)] = 2_000
    pass_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 300
    beacon: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=200,
                description="For a lottery: a public value that nobody can know before the sale opens, such as "
                "`drand main net, round 4321000`. The draw waits until an operator enters it.",
            ),
        ]
        | None
    ) = None

    def room(self) -> Room:
        return Room(self.mode, self.rate_per_second, self.pass_seconds, self.beacon)


class ProofOfWorkIn(Struct, frozen=True, forbid_unknown_fields=True):
    cost: Annotated[
        int,
        Meta(
            ge=1,
            le=10**9,
            description="Maximum attempts while demand is low; capped at what a phone can do.",
        ),
    ]


class BrandIn(Struct, frozen=True, forbid_unknown_fields=True):
    """How the sale's page looks. All of it is optional."""

    name: Annotated[str, Meta(min_length=1, max_length=80, pattern=PRINTABLE)] | None = None
    logo_url: ImageUrl | None = None
    accent: Colour | None = None
    background: Annotated[Colour, Meta(description="A light colour. Dark mode has its own.")] | None = None
    message: Annotated[str, Meta(max_length=300, pattern=TEXT)] | None = None


class SaleIn(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    sale_id: SaleId
    sku_id: Annotated[SkuId, Meta(examples=["sneaker-42"])]
    name: Name
    total_units: Annotated[
        int, Meta(ge=0, le=MAX_TOTAL_UNITS, description="All units of the pool, including sold and held ones.")
    ]
    price: PriceIn
    starts_at: StartsAt
    ends_at: Moment | None = None
    per_buyer_limit: (
        Annotated[Units, Meta(description="Units one buyer may hold or have bought; null: any.")] | None
    ) = 1
    hold_seconds: TtlSeconds = 300
    max_hold_seconds: (
        Annotated[
            TtlSeconds,
            Meta(description=f"Longest a buyer may hold units, extensions included; default: {MAX_HOLD_S}."),
        ]
        | None
    ) = None
    hold_budget: Annotated[Units, Meta(description="Unpaid expired holds after which a buyer gets no more.")] | None = (
        None
    )
    checkout: Annotated[Checkout, Meta(description="Hold first and pay in time, or pay immediately.")] = Checkout.CART
    payment: PaymentKind
    oversell_policy: OversellPolicy = OversellPolicy.FULFIL_FIRST
    review_above_percent: Annotated[
        Percent, Meta(description="If more than this share of the sold units is oversold, cancelling needs approval.")
    ] = 5
    buffer_units: Annotated[
        SpareUnits, Meta(description="Spare units outside of the pool; `fulfil_first` uses them before it flags.")
    ] = 0
    required_tier: Tier | None = None
    payment_attempts_max: Annotated[
        PaymentAttempts, Meta(description="How often a buyer may try to pay for a reservation.")
    ] = 3
    after_attempts: Annotated[
        AfterAttempts,
        Meta(description="After the last declined payment: cancel, or park for an operator."),
    ] = AfterAttempts.CANCEL
    units_per_address: (
        Annotated[Units, Meta(description="Units that clients of one address may have; null: any.")] | None
    ) = None
    purchase_attempts_max: (
        Annotated[Units, Meta(description="How often a buyer may try to buy, each time under a new key; null: any.")]
        | None
    ) = None
    description: Description | None = None
    image_url: ImageUrl | None = None
    checkout_url: CheckoutUrl | None = None
    brand: BrandIn | None = None
    locale: Locale | None = None
    room: RoomIn = RoomIn()
    proof_of_work: ProofOfWorkIn | None = None
    drop_id: Annotated[DropId, Meta(description="The drop it is part of, with one room for all.")] | None = None
    cell: CellName | None = None
    notify: Annotated[bool, Meta(description="Send messages to buyers who asked for them.")] = True

    def sale(self) -> Sale:
        terms = _terms(self)
        units, max_hold, _ = (terms.pop(name) for name in ("total_units", "max_hold_seconds", "cell"))
        return Sale(loaded_units=units, max_hold_seconds=max_hold or MAX_HOLD_S, **terms)


_BEFORE_START = Meta(description="Before the start only.")


class SalePatch(Struct, frozen=True, forbid_unknown_fields=True):
    """Left out: unchanged. Null, where it may be: none."""

    name: Name | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET
    image_url: ImageUrl | UnsetType | None = UNSET
    checkout_url: CheckoutUrl | UnsetType | None = UNSET
    brand: BrandIn | UnsetType | None = UNSET
    locale: Locale | UnsetType | None = UNSET
    price: Annotated[PriceIn, _BEFORE_START] | UnsetType = UNSET
    starts_at: Annotated[Moment, _BEFORE_START] | UnsetType = UNSET
    ends_at: Moment | UnsetType | None = UNSET
    per_buyer_limit: Units | UnsetType | None = UNSET
    hold_seconds: TtlSeconds | UnsetType = UNSET
    max_hold_seconds: TtlSeconds | UnsetType = UNSET
    hold_budget: Units | UnsetType | None = UNSET
    required_tier: Tier | UnsetType | None = UNSET
    units_per_address: Units | UnsetType | None = UNSET
    purchase_attempts_max: Units | UnsetType | None = UNSET
    payment_attempts_max: PaymentAttempts | UnsetType = UNSET
    after_attempts: AfterAttempts | UnsetType = UNSET
    checkout: Annotated[Checkout, _BEFORE_START] | UnsetType = UNSET
    payment: Annotated[PaymentKind, _BEFORE_START] | UnsetType = UNSET
    oversell_policy: OversellPolicy | UnsetType = UNSET
    review_above_percent: Percent | UnsetType = UNSET
    buffer_units: SpareUnits | UnsetType = UNSET
    room: RoomIn | UnsetType = UNSET
    proof_of_work: ProofOfWorkIn | UnsetType | None = UNSET
    notify: bool | UnsetType = UNSET

    def changes(self) -> dict[str, Any]:
        return _terms(self)


def _terms(given: SaleIn | SalePatch) -> dict[str, Any]:
    """What was given, by the names the domain has for it."""
    terms: dict[str, Any] = {}
    for name in given.__struct_fields__:
        value = getattr(given, name)
        if value is UNSET:
            continue
        if isinstance(value, PriceIn):
            terms |= {"price_amount": value.amount, "currency": value.currency}
        elif isinstance(value, RoomIn):
            terms[name] = value.room()
        elif isinstance(value, ProofOfWorkIn):
            terms[name] = ProofOfWork(value.cost)
        elif isinstance(value, BrandIn):
            terms[name] = Brand(*structs.astuple(value))
        else:
            terms[name] = int(value) if isinstance(value, Moment) else value
    return terms


class RestockIn(Struct, frozen=True, forbid_unknown_fields=True):
    units: Annotated[
        int,
        Meta(ge=-MAX_TOTAL_UNITS, le=MAX_TOTAL_UNITS, description="Units to add; a negative number removes free ones."),
    ]


class PurchaseIn(Struct, frozen=True, forbid_unknown_fields=True):
    quantity: Quantity
    min_quantity: MinQuantity | None = None
    payment_method: PaymentMethod | None = None
    proof: (
        Annotated[
            str,
            Meta(max_length=8_000, description="The solved challenge, if required and there is no waiting room."),
        ]
        | None
    ) = None

    quote_id: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=64,
                pattern=PRINTABLE,
                description="The quote to buy at; not with `min_quantity`.",
            ),
        ]
        | None
    ) = None


class SaleQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 20
    starting_after: Annotated[SaleId, Meta(description="The last sale ID of the previous page.")] | None = None


class PriceOut(Struct, frozen=True):
    amount: int
    currency: str


class RoomOut(Struct, frozen=True):
    mode: RoomMode
    rate_per_second: int
    pass_seconds: int
    beacon: str | None


class ProofOfWorkOut(Struct, frozen=True):
    cost: int


class BrandOut(Struct, frozen=True):
    name: str | None
    logo_url: str | None
    accent: str | None
    background: str | None
    message: str | None


class SaleOut(Struct, frozen=True):
    """What everyone may know. Service keys with the scope `sales` see the rest too."""

    sale_id: str
    sku_id: str
    name: str
    description: str | None
    image_url: str | None
    checkout_url: str | None
    brand: BrandOut | None
    locale: str | None
    price: PriceOut
    starts_at: Timestamp
    ends_at: Timestamp | None
    per_buyer_limit: int | None
    hold_seconds: int
    max_hold_seconds: int
    required_tier: int | None
    payment_attempts_max: int
    checkout: Checkout
    payment: PaymentKind
    room: RoomOut
    proof_of_work: ProofOfWorkOut | None
    drop_id: str | None
    notify: bool

    @classmethod
    def of(cls, sale: Sale) -> "SaleOut":
        return copy_fields(cls, sale, **_nested(sale))


class OperatorSaleOut(SaleOut, frozen=True):
    state: SaleState
    problem: Annotated[str | None, Meta(description="Why the sale cannot finish loading.")]
    paused: bool
    phase: Annotated[Phase, Meta(description="The phase that buyers see at /now.")]
    hold_budget: int | None
    units_per_address: int | None
    purchase_attempts_max: int | None
    after_attempts: AfterAttempts
    oversell_policy: OversellPolicy
    review_above_percent: int
    buffer_units: int
    deliverable_units: Annotated[
        int | None, Meta(description="The number of units that can be delivered, if an operator declared a shortage.")
    ]
    total_units: Annotated[int | None, Meta(description="Null if the pool cannot be read now, like the counts.")]
    available: int | None
    held: int | None
    sold: int | None
    created_at: Timestamp
    updated_at: Timestamp
    opened_at: Timestamp | None
    closed_at: Timestamp | None
    cell: Annotated[str | None, Meta(description="The cell it is sold in; null without cells.")]

    @classmethod
    def of_pool(cls, sale: Sale, pool: Pool | None, now: int, cell: str | None = None) -> "OperatorSaleOut":
        return copy_fields(
            cls,
            sale,
            **_nested(sale),
            phase=sale.phase(now, None if pool is None else pool.availability),
            total_units=None if pool is None else pool.total,
            available=None if pool is None else pool.available,
            held=None if pool is None else pool.held,
            sold=None if pool is None else pool.sold,
            cell=cell,
        )


def _nested(sale: Sale) -> dict[str, Any]:
    return {
        "price": PriceOut(sale.price_amount, sale.currency),
        "room": RoomOut(*structs.astuple(sale.room)),
        "proof_of_work": None if sale.proof_of_work is None else ProofOfWorkOut(sale.proof_of_work.cost),
        "brand": None if sale.brand is None else BrandOut(*structs.astuple(sale.brand)),
    }


class SalePage(Struct, frozen=True, omit_defaults=True):
    data: list[OperatorSaleOut]
    has_more: bool
    unavailable_cells: UnavailableCells = []


class PurchaseOut(Struct, frozen=True, gc=False):
    reservation_id: str
    sale_id: str
    quantity: int
    status: Status
    expires_at: Timestamp
    amount: int
    currency: str
    receipt: Annotated[str, Meta(description="Proof that this was granted: a JWT that this server can read.")]
