"""A quote: what a purchase will cost, promised to one buyer until it expires.

In another currency than the sale's, the price is converted at a rate that is looked up once. The amount is fixed with
the quote, and the reservation, the payment and the order have that amount, whatever the rate is by then.
"""

from decimal import ROUND_HALF_UP, Decimal

from msgspec import Struct, json

from holdfast.domain.sale.sale import digits_of
from holdfast.domain.stock.reservation import new_reservation_id

# Long enough to read the amount and press a button, short enough for a rate.
QUOTE_TTL_MS = 120_000
# The version of the UUID in a reservation's ID: 7 is from the clock, 8 is for uses of our own (RFC 9562).
_VERSION_AT, _QUOTED = 16, "8"


class Quote(Struct, frozen=True):
    quote_id: str
    sale_id: str
    buyer_id: str
    quantity: int
    amount: int
    currency: str
    created_at: int
    expires_at: int
    # The only reservation that can be made with it.
    reservation_id: str
    # What the sale asks for, in its own currency.
    base_amount: int
    base_currency: str
    # One unit of the base currency in the quoted one, as it was looked up. None: the currency is the sale's own.
    rate: str | None = None
    # The idempotency key of the purchase that uses it.
    key: str | None = None


class QuotedPrice(Struct, frozen=True):
    """The snapshot that a reservation and its order keep of their quote."""

    quote_id: str
    amount: int
    currency: str
    base_amount: int
    base_currency: str
    rate: str | None
    quoted_at: int


def price_of(quote: Quote) -> QuotedPrice:
    money = (quote.amount, quote.currency, quote.base_amount, quote.base_currency)
    return QuotedPrice(quote.quote_id, *money, quote.rate, quote.created_at)


def write_price(price: QuotedPrice) -> str:
    return json.encode(price).decode()


def read_price(text: str) -> QuotedPrice:
    return json.decode(text, type=QuotedPrice)


def converted(amount: int, base: str, currency: str, rate: Decimal) -> int:
    """In the smallest unit of the other currency that can be charged, rounded half up as shops do."""
    exact, step = Decimal(amount).scaleb(digits_of(currency) - digits_of(base)) * rate, _STEPS.get(currency, 1)
    return int((exact / step).quantize(Decimal(1), ROUND_HALF_UP)) * step


# Cards are charged in whole krónur, and without the third decimal.
_STEPS = {"ISK": 100} | dict.fromkeys(("BHD", "JOD", "KWD", "OMR", "TND"), 10)


def quoted_reservation_id(sku_id: str, owner_id: str) -> str:
    """A reservation ID that marks that there is a quote. Most have none, and are not looked up."""
    made = new_reservation_id(sku_id, owner_id)
    return made[:_VERSION_AT] + _QUOTED + made[_VERSION_AT + 1 :]


def may_be_quoted(reservation_id: str) -> bool:
    """False: there is no quote for it. A replacement (`reacquired_id`) may be marked without having one."""
    return reservation_id[_VERSION_AT : _VERSION_AT + 1] == _QUOTED
