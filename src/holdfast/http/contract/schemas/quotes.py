"""Quotes, and what is kept of them."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.domain.sale.quote import Quote, QuotedPrice
from holdfast.http.contract.schemas.copying import copy_fields
from holdfast.http.contract.schemas.values import Currency, Quantity, Timestamp
from holdfast.runtime.times import rfc3339


class QuoteIn(Struct, frozen=True, forbid_unknown_fields=True):
    quantity: Quantity = 1
    currency: Annotated[Currency, Meta(description="The currency to pay in; omitted: the sale's own.")] | None = None


class QuoteOut(Struct, frozen=True, kw_only=True):
    quote_id: str
    sale_id: str
    quantity: int
    amount: Annotated[int, Meta(description="The total price of the purchase, in the smallest unit of `currency`.")]
    currency: str
    rate: (
        Annotated[str, Meta(description="One unit of the sale's currency in this one; omitted if they are the same.")]
        | UnsetType
    ) = UNSET
    expires_at: Timestamp

    @classmethod
    def of(cls, quote: Quote) -> "QuoteOut":
        return cls(
            quote_id=quote.quote_id,
            sale_id=quote.sale_id,
            quantity=quote.quantity,
            amount=quote.amount,
            currency=quote.currency,
            rate=UNSET if quote.rate is None else quote.rate,
            expires_at=rfc3339(quote.expires_at),
        )


class QuotedPriceOut(Struct, frozen=True):
    """The quote that something was bought at."""

    quote_id: str
    amount: int
    currency: str
    base_amount: Annotated[int, Meta(description="The price in the sale's own currency.")]
    base_currency: str
    rate: Annotated[str | None, Meta(description="Null if the currency is the sale's own.")]
    quoted_at: Timestamp

    @classmethod
    def of(cls, price: QuotedPrice) -> "QuotedPriceOut":
        return copy_fields(cls, price)
