"""What whoever runs the sale does: makes it, looks at how it stands, and reads the books. Needs a service key."""

import asyncio
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import httpx
import msgspec
from msgspec import Struct

from holdfast.errors import SettingsError, Unavailable
from holdfast.http.times import rfc3339
from holdfast.rush.scenario import Scenario
from holdfast.rush.visitor import Offer
from holdfast.rush.wishes import Lottery

TIMEOUT_S = 30.0
PAGE = 100
_RETRIES = 20
_RETRY_S = 0.5


class Stock(Struct, frozen=True):
    total_units: int
    available: int
    held: int
    sold: int


class Line(Struct, frozen=True):
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


class _ReservationPage(Struct, frozen=True):
    data: list[ReservationRow]
    has_more: bool


class _OrderPage(Struct, frozen=True):
    data: list[OrderRow]
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


class Operator:
    def __init__(self, url: str, service_key: str) -> None:
        headers = {"Authorization": f"Bearer {service_key}"} if service_key else {}
        self._client = httpx.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT_S, trust_env=False)

    async def close(self) -> None:
        await self._client.aclose()

    async def greet(self, buyer_token: str) -> None:
        """Finds out before anyone comes whether the server is there, and believes the key and the buyers' tokens."""
        buyers = await self._ask("GET", "/v1/orders", headers={"Authorization": buyer_token})
        if buyers.status_code == 401:
            raise SettingsError("the server does not believe buyers' tokens signed with this HOLDFAST_BUYER_SECRET")
        if "Authorization" in self._client.headers:
            ours = await self._ask("GET", "/v1/sales", params={"limit": "1"})
            if ours.status_code in (401, 403):
                raise SettingsError(f"HOLDFAST_SERVICE_KEY is not good enough for that server: {_explained(ours)}")

    async def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            return await self._client.request(method, path, **more)
        except httpx.HTTPError as exc:
            raise Unavailable(f"{self._client.base_url} does not answer: {exc}") from exc

    async def make_sales(self, scenario: Scenario, tag: str, units: int, opens_at: datetime) -> None:
        for number in range(scenario.sale.products):
            terms = _terms(scenario, tag, number, units, opens_at)
            answer = await self._ask("POST", "/v1/sales", json=terms)
            if answer.status_code not in (200, 201):
                raise SettingsError(f"the sale could not be made: {_explained(answer)}")
            if answer.json()["state"] == "loading":
                raise Unavailable(f"the sale does not open: {answer.json()['problem']}")

    async def offer(self, sale_id: str, total_units: int) -> Offer:
        """As buyers know it."""
        answer = await self._ask("GET", f"/v1/sales/{sale_id}")
        if answer.status_code != 200:
            raise SettingsError(f"the sale {sale_id} cannot be read: {_explained(answer)}")
        sale = msgspec.json.decode(answer.content, type=_Sale)
        opens_in_s = datetime.fromisoformat(sale.starts_at).timestamp() - datetime.now(UTC).timestamp()
        return Offer(
            sale.sale_id, sale.sku_id, total_units, sale.checkout, sale.payment, int(sale.price["amount"]),
            str(sale.price["currency"]),
            str(sale.room["mode"]), sale.proof_of_work is not None, sale.per_buyer_limit, float(sale.hold_seconds),
            monotonic() + opens_in_s,
        )  # fmt: skip

    async def stock(self, sku_id: str) -> Stock:
        return msgspec.json.decode(await self._read(f"/v1/inventory/{sku_id}/available"), type=Stock)

    async def line(self, sale_id: str) -> Line:
        return msgspec.json.decode(await self._read(f"/v1/sales/{sale_id}/room"), type=Line)

    async def reservations(self, sku_id: str) -> list[ReservationRow]:
        rows: list[ReservationRow] = []
        while True:
            after = {"starting_after": rows[-1].reservation_id} if rows else {}
            body = await self._read("/v1/reservations", sku_id=sku_id, limit=str(PAGE), **after)
            page = msgspec.json.decode(body, type=_ReservationPage)
            rows += page.data
            if not page.has_more:
                return rows

    async def orders(self, sale_id: str) -> list[OrderRow]:
        rows: list[OrderRow] = []
        while True:
            after = {"starting_after": rows[-1].order_id} if rows else {}
            body = await self._read("/v1/orders", sale_id=sale_id, limit=str(PAGE), **after)
            page = msgspec.json.decode(body, type=_OrderPage)
            rows += page.data
            if not page.has_more:
                return rows

    async def balance(self, buyer_id: str) -> int:
        return msgspec.json.decode(await self._read(f"/v1/wallets/{buyer_id}"), type=_Wallet).balance

    async def _read(self, path: str, **parameters: str) -> bytes:
        """Asks again while the server is busy: it may still be with the crowd."""
        for _ in range(_RETRIES):
            try:
                answer = await self._client.get(path, params=parameters)
            except httpx.TransportError:
                await asyncio.sleep(_RETRY_S)
                continue
            if answer.status_code == 200:
                return answer.content
            if answer.status_code not in (429, 503):
                raise Unavailable(f"GET {path}: {_explained(answer)}")
            await asyncio.sleep(_RETRY_S)
        raise Unavailable(f"GET {path} was not answered")


def opening(scenario: Scenario, starts_in_s: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=starts_in_s + scenario.sale.opens_after_seconds)


def sale_id_of(tag: str, product: int) -> str:
    return f"rush-{tag}-{product + 1}"


def units_of(units: int, products: int, product: int) -> int:
    """Spread evenly; the first have one more if it does not come out even."""
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


def _explained(answer: httpx.Response) -> str:
    try:
        told = answer.json()
        details = "; ".join(f"{error['field']}: {error['message']}" for error in told.get("errors", []))
        return f"{answer.status_code} {told['reason']}: {told['detail']} {details}".strip()
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{answer.status_code}"
