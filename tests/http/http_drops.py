"""Calling the API of drops."""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
from http_sales import Store, body_of, in_seconds
from http_serving import Server


@dataclass(frozen=True)
class DropStore:
    """A drop and its sales, over HTTP."""

    server: Server
    drop_id: str

    @property
    def path(self) -> str:
        return f"/v1/drops/{self.drop_id}"

    def create(self, **more: object) -> httpx.Response:
        terms = {"drop_id": self.drop_id, "name": "Winter drop", "starts_at": in_seconds(-90)} | more
        return self.server.client.post("/v1/drops", json=terms)

    def change(self, **changes: object) -> httpx.Response:
        return self.server.client.patch(self.path, json=changes)

    def show(self) -> dict[str, Any]:
        return body_of(self.server.client.get(self.path))

    def product(self, number: int, **terms: object) -> Store:
        name = f"{self.drop_id}-{number}"
        store = Store(self.server, name, f"sku-{name}")
        store.open(drop_id=self.drop_id, **terms)
        return store


def drop_of(server: Server) -> DropStore:
    return DropStore(server, f"drop-{uuid4().hex[:12]}")
