"""The server's books, as far as the checks need them, read when everything has ended."""

import asyncio
from collections.abc import Iterable, Sequence

import httpx
import msgspec
from msgspec import Struct

from holdfast.errors import Unavailable
from holdfast.http.times import millis
from holdfast.rush.operator import Line, Operator, OrderRow, ReservationRow, Stock
from holdfast.rush.visitor import Offer

_TIMEOUT_S = 30.0
_PAGE = 1_000
_AT_ONCE = 16


class Charge(Struct, frozen=True):
    reservation_id: str
    buyer_id: str
    sale_id: str


class Payment(Struct, frozen=True):
    """What the payment sandbox says."""

    key: str
    charge: Charge
    captured: int = 0
    captures: int = 0
    refunded: int = 0


class _Page(Struct, frozen=True):
    payments: list[Payment]
    next: int | None = None


class SaleBooks(Struct, frozen=True):
    offer: Offer
    stock: Stock
    line: Line | None
    reservations: list[ReservationRow]
    orders: list[OrderRow]


class Books(Struct, frozen=True):
    sales: list[SaleBooks]
    payments: list[Payment] | None = None
    """None if nobody could be asked."""
    balances: dict[str, int] = {}

    def sold(self) -> list[tuple[float, int]]:
        """When units were sold for good, in seconds by the server's clock, and how many; in that order."""
        orders = [order for sale in self.sales for order in sale.orders if order.status == "confirmed"]
        return sorted((millis(order.created_at) / 1_000, order.quantity) for order in orders)


async def read_books(
    operator: Operator, offers: Sequence[Offer], sandbox_url: str, wallet_owners: Iterable[str]
) -> Books:
    sales = [await _read_sale(operator, offer) for offer in offers]
    payments = await _read_payments(sandbox_url, {offer.sale_id for offer in offers}) if sandbox_url else None
    return Books(sales, payments, await _read_balances(operator, wallet_owners))


async def _read_sale(operator: Operator, offer: Offer) -> SaleBooks:
    line = None if offer.room == "off" else await operator.line(offer.sale_id)
    reservations = await operator.reservations(offer.sku_id)
    return SaleBooks(
        offer, await operator.stock(offer.sku_id), line, reservations, await operator.orders(offer.sale_id)
    )


async def _read_balances(operator: Operator, owners: Iterable[str]) -> dict[str, int]:
    waiting, found = iter(owners), dict[str, int]()

    async def ask() -> None:
        for owner in waiting:
            found[owner] = await operator.balance(owner)

    await asyncio.gather(*(ask() for _ in range(_AT_ONCE)))
    return found


async def _read_payments(url: str, sale_ids: set[str]) -> list[Payment]:
    payments: list[Payment] = []
    after: int | None = 0
    try:
        async with httpx.AsyncClient(base_url=url, timeout=_TIMEOUT_S, trust_env=False) as client:
            while after is not None:
                answer = (await client.get("/books", params={"after": after, "limit": _PAGE})).raise_for_status()
                page = msgspec.json.decode(answer.content, type=_Page)
                payments += [payment for payment in page.payments if payment.charge.sale_id in sale_ids]
                after = page.next
    except (httpx.HTTPError, httpx.InvalidURL, msgspec.DecodeError) as exc:
        raise Unavailable(f"the books of the sandbox at {url} cannot be read: {exc}") from exc
    return payments
