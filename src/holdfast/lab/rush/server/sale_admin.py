"""The seller's side: creates sales, reads stock and queue, lists reservations and orders. Needs a service key."""

import re
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from holdfast.errors import SettingsError, Unavailable
from holdfast.lab.load.buyer_tokens import authorization
from holdfast.lab.load.client import LoadClient
from holdfast.lab.load.http import JSON, Request, Response
from holdfast.lab.rush.buyers.actions import Lottery
from holdfast.lab.rush.buyers.buyer import Offer
from holdfast.lab.scenarios.scenario import Scenario
from holdfast.runtime.times import rfc3339

T = TypeVar("T")

PAGE = 100
CONNECTIONS = 16
_READ_ATTEMPTS = 20
_ANSWERED = re.compile(r"^holdfast_http_requests_total\{.*\} (\S+)$", re.MULTILINE)


class Stock(Struct, frozen=True):
    total_units: int
    available: int
    held: int
    sold: int


class QueueStatus(Struct, frozen=True):
    joined: int
    serving: int
    waiting: int
    lottery: Lottery


class ReservationRow(Struct, frozen=True):
    reservation_id: str
    owner_id: str
    quantity: int
    status: str


class OrderRow(Struct, frozen=True):
    order_id: str
    reservation_id: str
    buyer_id: str
    quantity: int
    amount: int
    refunded_amount: int
    status: str
    created_at: str
    confirmed_at: str | None = None


class _Page(Struct, Generic[T], frozen=True):
    data: list[T]
    has_more: bool


class _Wallet(Struct, frozen=True):
    balance: int


class _Sale(Struct, frozen=True):
    sale_id: str
    sku_id: str
    checkout: str
    payment: str
    price: dict[str, Any]
    room: dict[str, Any]
    proof_of_work: dict[str, Any] | None
    per_buyer_limit: int | None
    hold_seconds: int
    starts_at: str


class JournalLag(Struct, frozen=True):
    items: int


class Lags(Struct, frozen=True):
    """The journal entries missing from the ledger, at this time on the server."""

    as_of: str
    journal: JournalLag


class SaleAdmin:
    def __init__(self, host: str, port: int, service_key: str) -> None:
        self._client = LoadClient(host, port, CONNECTIONS)
        self._headers = authorization(service_key) if service_key else b""

    def close(self) -> None:
        self._client.close()

    async def check_access(self, buyer_token: bytes) -> None:
        """Fails before any buyer arrives if the server is down or rejects the key or the buyers' tokens."""
        as_buyer = await self._client.request(Request("check", "GET", "/v1/orders", authorization(buyer_token)))
        if as_buyer.status == 401:
            raise SettingsError("the server rejects buyers' tokens signed with this HOLDFAST_BUYER_SECRET")
        if self._headers:
            response = await self._client.request(Request("check", "GET", "/v1/sales?limit=1", self._headers))
            if response.status in (401, 403):
                raise SettingsError(f"the server rejects HOLDFAST_SERVICE_KEY: {_explain(response)}")

    async def create_sales(self, scenario: Scenario, tag: str, units: int, opens_at: datetime) -> None:
        for number in range(scenario.sale.products):
            terms = msgspec.json.encode(_terms(scenario, tag, number, units, opens_at))
            response = await self._client.request(Request("create", "POST", "/v1/sales", self._headers + JSON, terms))
            if response.status not in (200, 201):
                raise SettingsError(f"the sale could not be created: {_explain(response)}")
            sale = msgspec.json.decode(response.body)
            if sale["state"] == "loading":
                raise Unavailable(f"the sale does not open: {sale['problem']}")

    async def offer(self, sale_id: str, total_units: int) -> Offer:
        response = await self._client.request(Request("read", "GET", f"/v1/sales/{sale_id}", self._headers))
        if response.status != 200:
            raise SettingsError(f"the sale {sale_id} cannot be read: {_explain(response)}")
        sale = msgspec.json.decode(response.body, type=_Sale)
        opens_in_s = datetime.fromisoformat(sale.starts_at).timestamp() - datetime.now(UTC).timestamp()
        return Offer(
            sale.sale_id, sale.sku_id, total_units, sale.checkout, sale.payment, int(sale.price["amount"]),
            str(sale.price["currency"]),
            str(sale.room["mode"]), sale.proof_of_work is not None, sale.per_buyer_limit, float(sale.hold_seconds),
            monotonic() + opens_in_s,
        )  # fmt: skip

    async def stock(self, sku_id: str) -> Stock:
        return await self._read(Stock, f"/v1/inventory/{sku_id}/available")

    async def lags(self) -> Lags | None:
        """Returns None if the key lacks permission."""
        response = await self._client.request(Request("read", "GET", "/v1/ops/lag", self._headers))
        if response.status == 403:
            return None
        if response.status != 200:
            raise Unavailable(f"GET /v1/ops/lag: {_explain(response)}")
        return msgspec.json.decode(response.body, type=Lags)

    async def queue_status(self, sale_id: str) -> QueueStatus:
        return await self._read(QueueStatus, f"/v1/sales/{sale_id}/room")

    async def reservations(self, sku_id: str) -> list[ReservationRow]:
        return await self._read_all(_Page[ReservationRow], "/v1/reservations", "reservation_id", sku_id=sku_id)

    async def orders(self, sale_id: str) -> list[OrderRow]:
        """Paid orders only; orders whose payment failed are left out."""
        found = await self._read_all(_Page[OrderRow], "/v1/orders", "order_id", sale_id=sale_id)
        return [order for order in found if order.confirmed_at is not None]

    async def _read_all(self, kind: type[_Page[T]], path: str, id_field: str, **filters: str) -> list[T]:
        rows: list[T] = []
        while True:
            after = {"starting_after": getattr(rows[-1], id_field)} if rows else {}
            page = await self._read(kind, path, limit=str(PAGE), **filters, **after)
            rows += page.data
            if not page.has_more:
                return rows

    @property
    def sent(self) -> int:
        return self._client.sent

    async def requests_answered(self) -> int:
        """The total of all server processes. It does not include this request yet."""
        response = await self._client.request(
            Request("read", "GET", "/metrics", self._headers), attempts=_READ_ATTEMPTS
        )
        if response.status != 200:
            raise Unavailable(f"GET /metrics: {_explain(response)}")
        return int(sum(map(float, _ANSWERED.findall(response.body.decode()))))

    async def balance(self, buyer_id: str) -> int:
        return (await self._read(_Wallet, f"/v1/wallets/{buyer_id}")).balance

    async def _read(self, kind: type[T], path: str, **parameters: str) -> T:
        """Retries while the server is busy with buyers."""
        address = f"{path}?{urlencode(parameters)}" if parameters else path
        response = await self._client.request(Request("read", "GET", address, self._headers), attempts=_READ_ATTEMPTS)
        if response.status != 200:
            raise Unavailable(f"GET {path}: {_explain(response)}")
        return msgspec.json.decode(response.body, type=kind)


def opening(scenario: Scenario, starts_in_s: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=starts_in_s + scenario.sale.opens_after_seconds)


def sale_id_of(tag: str, product: int) -> str:
    return f"rush-{tag}-{product + 1}"


def units_of(units: int, products: int, product: int) -> int:
    """Spread evenly; the first products get the remainder."""
    return units // products + (product < units % products)


def _terms(scenario: Scenario, tag: str, number: int, units: int, opens_at: datetime) -> dict[str, Any]:
    sale = scenario.sale
    terms: dict[str, Any] = {
        "sale_id": sale_id_of(tag, number),
        "sku_id": sale_id_of(tag, number),
        "name": f"{sale.name} {number + 1}" if sale.products > 1 else sale.name,
        "total_units": units_of(units, sale.products, number),
        "price": {"amount": sale.price, "currency": sale.currency},
        "starts_at": rfc3339(int(opens_at.timestamp() * 1000)),
        "per_buyer_limit": sale.per_buyer_limit,
        "hold_seconds": sale.hold_seconds,
        "checkout": sale.checkout,
        "payment": sale.payment,
        "room": msgspec.to_builtins(sale.room),
    }
    if sale.proof_of_work_cost is not None:
        terms["proof_of_work"] = {"cost": sale.proof_of_work_cost}
    return terms


def _explain(response: Response) -> str:
    try:
        problem = msgspec.json.decode(response.body)
        details = "; ".join(f"{error['field']}: {error['message']}" for error in problem.get("errors", []))
        return f"{response.status} {problem['reason']}: {problem['detail']} {details}".strip()
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{response.status}"
