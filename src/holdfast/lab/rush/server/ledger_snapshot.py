"""The data that the checks need from the server's ledger and the payment sandbox, read at the end."""

import asyncio
from collections.abc import Iterable, Sequence

import httpx
import msgspec
from msgspec import Struct

from holdfast.errors import Unavailable
from holdfast.lab.rush.buyers.buyer import Offer
from holdfast.lab.rush.server.sale_admin import OrderRow, QueueStatus, ReservationRow, SaleAdmin, Stock
from holdfast.runtime.times import millis

_TIMEOUT_S = 30.0
_PAGE = 1_000
_PARALLEL = 16


class Charge(Struct, frozen=True):
    reservation_id: str
    buyer_id: str
    sale_id: str


class Payment(Struct, frozen=True):
    """A payment as the sandbox reports it."""

    key: str
    charge: Charge
    captured: int = 0
    captures: int = 0
    refunded: int = 0


class _Page(Struct, frozen=True):
    payments: list[Payment]
    next: int | None = None


class SaleSnapshot(Struct, frozen=True):
    offer: Offer
    stock: Stock
    queue: QueueStatus | None
    reservations: list[ReservationRow]
    orders: list[OrderRow]


class LedgerSnapshot(Struct, frozen=True):
    sales: list[SaleSnapshot]
    payments: list[Payment] | None = None
    """None without a payment sandbox."""
    balances: dict[str, int] = {}

    def sold(self) -> list[tuple[float, int]]:
        """(time of confirmation in seconds on the server's clock, units) of each confirmed order; sorted."""
        orders = [order for sale in self.sales for order in sale.orders if order.status == "confirmed"]
        return sorted((millis(order.confirmed_at or order.created_at) / 1_000, order.quantity) for order in orders)


async def read_snapshot(
    admin: SaleAdmin, offers: Sequence[Offer], sandbox_url: str, wallet_owners: Iterable[str]
) -> LedgerSnapshot:
    sales = [await _read_sale(admin, offer) for offer in offers]
    payments = await _read_payments(sandbox_url, {offer.sale_id for offer in offers}) if sandbox_url else None
    return LedgerSnapshot(sales, payments, await _read_balances(admin, wallet_owners))


async def _read_sale(admin: SaleAdmin, offer: Offer) -> SaleSnapshot:
    queue = None if offer.room == "off" else await admin.queue_status(offer.sale_id)
    reservations = await admin.reservations(offer.sku_id)
    return SaleSnapshot(offer, await admin.stock(offer.sku_id), queue, reservations, await admin.orders(offer.sale_id))


async def _read_balances(admin: SaleAdmin, owners: Iterable[str]) -> dict[str, int]:
    waiting, found = iter(owners), dict[str, int]()

    async def read() -> None:
        for owner in waiting:
            found[owner] = await admin.balance(owner)

    await asyncio.gather(*(read() for _ in range(_PARALLEL)))
    return found


async def _read_payments(url: str, sale_ids: set[str]) -> list[Payment]:
    payments: list[Payment] = []
    after: int | None = 0
    try:
        async with httpx.AsyncClient(base_url=url, timeout=_TIMEOUT_S, trust_env=False) as client:
            while after is not None:
                response = (await client.get("/books", params={"after": after, "limit": _PAGE})).raise_for_status()
                page = msgspec.json.decode(response.content, type=_Page)
                payments += [payment for payment in page.payments if payment.charge.sale_id in sale_ids]
                after = page.next
    except (httpx.HTTPError, httpx.InvalidURL, msgspec.DecodeError) as exc:
        raise Unavailable(f"the payments of the sandbox at {url} cannot be read: {exc}") from exc
    return payments
