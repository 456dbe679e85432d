"""Calling the Sales API."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
from http_calling import eventually
from http_serving import Server
from http_tokens import buyer_token


def in_seconds(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class Store:
    """One sale, over HTTP, as its operator and as its buyers."""

    server: Server
    sale_id: str
    sku_id: str

    @property
    def path(self) -> str:
        return f"/v1/sales/{self.sale_id}"

    def terms(self, **more: object) -> dict[str, Any]:
        return {
            "sale_id": self.sale_id,
            "sku_id": self.sku_id,
            "name": "Drop",
            "total_units": 3,
            "price": {"amount": 4_999, "currency": "EUR"},
            "starts_at": in_seconds(-60),
            "checkout": "cart",
            "payment": "wallet",
        } | more

    def create(self, **more: object) -> httpx.Response:
        return self.server.client.post("/v1/sales", json=self.terms(**more))

    def open(self, **more: object) -> dict[str, Any]:
        return body_of(self.create(**more), 201)

    def show(self) -> dict[str, Any]:
        return body_of(self.server.client.get(self.path))

    def change(self, **changes: object) -> httpx.Response:
        return self.server.client.patch(self.path, json=changes)

    def start_soon(self) -> None:
        """A start cannot be moved closer than three seconds, as the server sees it when the request arrives."""
        eventually(lambda: self.change(starts_at=in_seconds(3.5)).status_code == 200)

    def act(self, what: str, **given: object) -> httpx.Response:
        return self.server.client.post(f"{self.path}/{what}", json=given or None)

    def now(self) -> httpx.Response:
        return httpx.get(f"{self.server.url}{self.path}/now", verify=False, trust_env=False)

    @contextmanager
    def buyer(self, buyer_id: str = "ada", **claims: object) -> Iterator["Buyer"]:
        with self.server.connect(buyer_token(buyer_id, **claims)) as client:
            yield Buyer(client, self)

    def buy(self, buyer_id: str = "ada", quantity: int = 1, **more: Any) -> dict[str, Any]:
        with self.buyer(buyer_id) as buyer:
            return body_of(buyer.purchase(quantity, **more), 201)

    def counts(self) -> tuple[int, int, int]:
        shown = self.show()
        assert shown["available"] + shown["held"] + shown["sold"] == shown["total_units"]
        return shown["available"], shown["held"], shown["sold"]


@dataclass(frozen=True)
class Buyer:
    client: httpx.Client
    store: Store

    def purchase(self, quantity: int = 1, *, key: str | None = None, **more: Any) -> httpx.Response:
        return self.client.post(
            f"{self.store.path}/purchase",
            json={"quantity": quantity} | more,
            headers={"Idempotency-Key": key or uuid4().hex},
        )


def store_of(server: Server) -> Store:
    name = uuid4().hex[:12]
    return Store(server, f"sale-{name}", f"sku-{name}")


def body_of(response: httpx.Response, status: int = 200) -> dict[str, Any]:
    assert response.status_code == status, response.text
    body: dict[str, Any] = response.json()
    return body
