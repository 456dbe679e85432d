"""Quotes: promises of an amount, and the purchases that use them."""

from collections.abc import Iterable, Mapping
from enum import Enum, auto

from sqlalchemy import Connection
from uuid_utils import uuid7

from holdfast.domain.sale.quote import (
    QUOTE_TTL_MS,
    Quote,
    QuotedPrice,
    converted,
    may_be_quoted,
    quoted_reservation_id,
)
from holdfast.domain.sale.sale import MAX_AMOUNT, Sale
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.quotes import claim_quote, find_quote, insert_quote, prices_of
from holdfast.payments.rates import RateProvider


class QuoteDenied(Enum):
    NO_RATE = auto()
    AMOUNT_TOO_HIGH = auto()


class QuoteRefused(Enum):
    """Why a purchase cannot use a quote."""

    EXPIRED = auto()
    # It is unknown, belongs to another buyer, sale or quantity, or was used for another purchase.
    MISMATCH = auto()


class Quotes:
    def __init__(self, database: Database, rates: RateProvider) -> None:
        self._database = database
        self._rates = rates

    async def make(self, sale: Sale, buyer_id: str, quantity: int, currency: str | None) -> Quote | QuoteDenied:
        base_amount, currency = sale.amount_of(quantity), currency or sale.currency
        rate = None if currency == sale.currency else await self._rates.rate(sale.currency, currency)
        if rate is None and currency != sale.currency:
            return QuoteDenied.NO_RATE
        amount = base_amount if rate is None else converted(base_amount, sale.currency, currency, rate)
        if base_amount and not amount:
            return QuoteDenied.NO_RATE  # It would be free.
        if max(amount, base_amount) > MAX_AMOUNT:
            return QuoteDenied.AMOUNT_TOO_HIGH

        def work(connection: Connection) -> Quote:
            now = self._database.now_ms(connection)
            quote = Quote(
                quote_id=f"quo_{uuid7().hex}",
                sale_id=sale.sale_id,
                buyer_id=buyer_id,
                quantity=quantity,
                amount=amount,
                currency=currency,
                created_at=now,
                expires_at=now + QUOTE_TTL_MS,
                reservation_id=quoted_reservation_id(sale.sku_id, buyer_id),
                base_amount=base_amount,
                base_currency=sale.currency,
                rate=None if rate is None else format(rate, "f"),
            )
            insert_quote(connection, quote)
            return quote

        return await self._database.write(work)

    async def find(self, sale: Sale, buyer_id: str, quantity: int, quote_id: str) -> Quote | None:
        """The quote, if it is for this purchase."""
        found = await self._database.read(lambda connection: find_quote(connection, quote_id))
        asked = (sale.sale_id, buyer_id, quantity)
        is_for_it = found is not None and (found.sale_id, found.buyer_id, found.quantity) == asked
        return found if is_for_it else None

    async def claim(self, quote: Quote, key: str) -> QuoteRefused | None:
        """None if the purchase with this key already uses it."""

        def work(connection: Connection) -> QuoteRefused | None:
            if quote.expires_at <= self._database.now_ms(connection):
                return QuoteRefused.EXPIRED
            return None if claim_quote(connection, quote, key) else QuoteRefused.MISMATCH

        return await self._database.write(work)

    async def prices_of(self, reservation_ids: Iterable[str]) -> Mapping[str, QuotedPrice]:
        """Prices of the reservations made with a quote; without any there is no query."""
        ids = [id_ for id_ in reservation_ids if may_be_quoted(id_)]
        return await self._database.read(lambda connection: prices_of(connection, ids)) if ids else {}
