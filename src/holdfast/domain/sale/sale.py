"""A sale: the window, price, limits, payment and waiting room under which a pool is sold."""

from enum import StrEnum
from hashlib import sha256

from msgspec import Struct

from holdfast.domain.sale.brand import Brand, brand_contradictions
from holdfast.domain.stock.limits import MAX_HOLD_S
from holdfast.domain.stock.pool import Availability, Rules

MAX_AMOUNT = 10**12

# Amounts are in the smallest unit of their currency: hundredths, except for these.
_WITHOUT_CENTS = frozenset(
    ["BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF"]
)
_THOUSANDTHS = frozenset(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"])


def in_words(amount: int, currency: str) -> str:
    """An amount as people write it: 49.99 EUR."""
    digits = digits_of(currency)
    return f"{amount / 10**digits:,.{digits}f} {currency}"


def digits_of(currency: str) -> int:
    """How many digits its smallest unit is after the point."""
    return 0 if currency in _WITHOUT_CENTS else 3 if currency in _THOUSANDTHS else 2


class Checkout(StrEnum):
    # Hold first, pay before the deadline.
    CART = "cart"
    # Reserve and pay in one request.
    INSTANT = "instant"


class PaymentKind(StrEnum):
    WALLET = "wallet"
    SANDBOX = "sandbox"
    STRIPE = "stripe"
    # The caller takes the money and then confirms.
    EXTERNAL = "external"


# Over the network, with a method that the buyer chose.
PAID_BY_PROVIDER = (PaymentKind.SANDBOX, PaymentKind.STRIPE)


class RoomMode(StrEnum):
    OFF = "off"
    FIFO = "fifo"
    LOTTERY = "lottery"


class OversellPolicy(StrEnum):
    """What happens to orders that exceed the stock, because the total was lowered or never existed."""

    # The newest orders are cancelled and refunded.
    CANCEL_LAST = "cancel_last"
    # All orders stand. The newest are flagged, because their units have to be sourced.
    FULFIL_FIRST = "fulfil_first"
    # All orders stand, and the shortage is only reported.
    REPORT = "report"


class AfterAttempts(StrEnum):
    """What follows the last payment that may be declined: the units return, or a person decides."""

    CANCEL = "cancel"
    PARK = "park"


class SaleState(StrEnum):
    """A sale's lifecycle state. Buyers see its `Phase` instead."""

    LOADING = "loading"
    READY = "ready"
    CLOSED = "closed"


class Phase(StrEnum):
    """The state that buyers see."""

    UPCOMING = "upcoming"
    OPEN = "open"
    ALL_HELD = "all_held"
    SOLD_OUT = "sold_out"
    PAUSED = "paused"
    ENDED = "ended"


_PHASES = {
    Availability.AVAILABLE: Phase.OPEN,
    Availability.ALL_HELD: Phase.ALL_HELD,
    Availability.SOLD_OUT: Phase.SOLD_OUT,
}


class Room(Struct, frozen=True):
    mode: RoomMode = RoomMode.OFF
    rate_per_second: int = 2_000
    pass_seconds: int = 300
    # A public value that becomes known only after joining closes; the draw waits for it.
    beacon: str | None = None


class ProofOfWork(Struct, frozen=True):
    cost: int


class Sale(Struct, frozen=True, kw_only=True):
    sale_id: str
    sku_id: str
    name: str
    price_amount: int
    currency: str
    starts_at: int
    checkout: Checkout
    payment: PaymentKind
    # The pool's initial units. After loading, the pool has the total.
    loaded_units: int = 0
    description: str | None = None
    image_url: str | None = None
    # Where the shop takes the money itself: external carts link to it.
    checkout_url: str | None = None
    brand: Brand | None = None
    # The page's language unless the visitor chose one, as a BCP 47 tag.
    locale: str | None = None
    ends_at: int | None = None
    per_buyer_limit: int | None = 1
    hold_seconds: int = 300
    max_hold_seconds: int = MAX_HOLD_S
    hold_budget: int | None = None
    required_tier: int | None = None
    # Units that clients of one address may hold or have bought together.
    units_per_address: int | None = None
    # How often a buyer may try to buy, each time under a key of its own.
    purchase_attempts_max: int | None = None
    # How often a buyer may try to pay for a reservation, and what follows if all payments are declined.
    payment_attempts_max: int = 3
    after_attempts: AfterAttempts = AfterAttempts.CANCEL
    # No order is cancelled unless the operator chose that policy.
    oversell_policy: OversellPolicy = OversellPolicy.FULFIL_FIRST
    # An oversell of more than this part of the sold units is never cancelled without a person's approval.
    review_above_percent: int = 5
    # Spare units outside of the pool, which `fulfil_first` uses before it flags orders.
    buffer_units: int = 0
    deliverable_units: int | None = None
    room: Room = Room()
    proof_of_work: ProofOfWork | None = None
    # The drop it is part of. Its room is that drop's, copied here.
    drop_id: str | None = None
    # Whether its buyers get messages, if they asked for them.
    notify: bool = True
    state: SaleState = SaleState.LOADING
    # Why loading is stuck.
    problem: str | None = None
    paused: bool = False
    created_at: int = 0
    updated_at: int = 0
    opened_at: int | None = None
    closed_at: int | None = None

    @property
    def rules(self) -> Rules:
        """The rules for its pool. A loading sale does not sell; a closed one refuses as ended."""
        is_closed = self.state is SaleState.CLOSED
        return Rules(
            per_owner_limit=self.per_buyer_limit,
            hold_budget=self.hold_budget,
            required_tier=self.required_tier,
            opens_at=None if is_closed else self.starts_at,
            ends_at=self.ends_at,
            paused=self.state is SaleState.LOADING or (self.paused and not is_closed),
        )

    @property
    def line_id(self) -> str:
        """Whose waiting line its buyers stand in."""
        return line_of_sale(self.sale_id, self.drop_id)

    def phase(self, now: int, availability: Availability | None) -> Phase:
        """The phase that buyers see, given the pool's availability if it is known."""
        if self.state is SaleState.CLOSED or (self.ends_at is not None and now >= self.ends_at):
            return Phase.ENDED
        if self.paused:
            return Phase.PAUSED
        if now < self.starts_at:
            return Phase.UPCOMING
        if self.state is SaleState.LOADING:
            return Phase.PAUSED
        return _PHASES[availability or Availability.AVAILABLE]

    def amount_of(self, quantity: int) -> int:
        return self.price_amount * quantity


def line_of_sale(sale_id: str, drop_id: str | None) -> str:
    return sale_id if drop_id is None else line_id_of(drop_id)


def line_id_of(drop_id: str) -> str:
    """No sale's ID contains a slash."""
    return f"drop/{drop_id}"


class OrderStatus(StrEnum):
    # Its payment has begun.
    PENDING = "pending"
    CONFIRMED = "confirmed"
    FULFILLED = "fulfilled"
    REFUNDED = "refunded"
    CANCELLED = "cancelled"


class Order(Struct, frozen=True):
    order_id: str
    reservation_id: str
    sale_id: str
    buyer_id: str
    quantity: int
    amount: int
    currency: str
    status: OrderStatus
    refunded_amount: int
    created_at: int
    # The provider that took the money, or `external` for a direct confirm with a service key.
    payment: PaymentKind
    # Units that were sold but do not exist and have to be sourced.
    units_to_source: int = 0
    updated_at: int = 0
    # When it was paid. None: not yet, or never.
    confirmed_at: int | None = None
    tracking: str | None = None
    # The snapshot of the quote that it was bought at, as JSON (`QuotedPrice`).
    quote: str | None = None

    @property
    def number(self) -> str:
        return order_number_of(self.reservation_id)

    @property
    def unit_price(self) -> int:
        return self.amount // self.quantity


def order_id_of(reservation_id: str) -> str:
    """IDs of everything that follows a reservation are derived from its ID."""
    return f"ord_{reservation_id[4:36]}"


# Without letters that are mistaken for digits (Crockford).
_READABLE = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_AS_TYPED = str.maketrans({"O": "0", "I": "1", "L": "1", "-": None, " ": None})


def order_number_of(reservation_id: str) -> str:
    """For people to read and type: 60 bits, so that no two orders of a shop have the same."""
    bits = int.from_bytes(sha256(reservation_id.encode()).digest()[:8]) >> 4
    letters = "".join(_READABLE[bits >> shift & 31] for shift in range(55, -1, -5))
    return "-".join(letters[at : at + 4] for at in (0, 4, 8))


def read_order_number(text: str) -> str:
    """A number as somebody typed it: in any case, without hyphens, with letters for the digits they resemble."""
    letters = text.upper().translate(_AS_TYPED)
    return "-".join(letters[at : at + 4] for at in range(0, len(letters), 4))


def payment_key_of(reservation_id: str, attempt: int = 1) -> str:
    """Each attempt to pay for a reservation has a key of its own at the provider."""
    return f"pay_{reservation_id[4:36]}" + (f"_{attempt}" if attempt > 1 else "")


def attempt_of(payment_key: str) -> int:
    number = payment_key[37:]
    return int(number) if number.isascii() and number.isdecimal() else 1


def reacquired_id(reservation_id: str) -> str:
    """The replacement of a reservation that ended before its payment arrived. The ID is deterministic.

    It keeps the time, whether there is a quote (`quote.py`), and the owner's mark, which names the shard.
    """
    made_at, version, mark_and_sku = reservation_id[4:16], reservation_id[16], reservation_id[34:]
    drawn = sha256(reservation_id.encode()).hexdigest()[:18]
    return f"rsv_{made_at}{version if version == '8' else drawn[0]}{drawn[1:]}{mark_and_sku}"


def refund_id_of(payment_key: str, cause: str) -> str:
    """The ID of a refund that nobody requested: one per payment and cause."""
    return f"rfd_{sha256(f'{payment_key}/{cause}'.encode()).hexdigest()[:32]}"


# Fixed once buyers may have seen them: the price of a reservation is not looked up again.
FIXED_AT_START = frozenset({"price_amount", "currency", "checkout", "payment", "starts_at"})


def contradictions(sale: Sale) -> dict[str, str]:
    """Contradictory values, by field. Empty if the sale is valid."""
    found = {}
    if sale.ends_at is not None and sale.ends_at <= sale.starts_at:
        found["ends_at"] = "must be after starts_at"
    if sale.max_hold_seconds < sale.hold_seconds:
        found["max_hold_seconds"] = "must not be less than hold_seconds"
    if sale.checkout is Checkout.INSTANT and sale.payment is PaymentKind.EXTERNAL:
        found["checkout"] = "must be cart if payment is external, because the server cannot start an external payment"
    if sale.price_amount * (sale.per_buyer_limit or 1) > MAX_AMOUNT:
        found["price.amount"] = f"must not make a purchase exceed {MAX_AMOUNT}"
    return found | brand_contradictions(sale.brand)
