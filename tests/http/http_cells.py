"""Several cells behind one server, asked inside the process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from http_serving import BUYER_SECRET, SERVICE_KEY
from http_tokens import buyer_token

from asking_inside import NoConnection
from databases import new_sqlite_database
from holdfast.bootstrap.services import Services
from holdfast.http.contract.message import Request
from holdfast.http.server.cells.app import CellsApp, open_cells
from holdfast.settings import Settings, load_settings

TERMS = {
    "name": "Drop",
    "total_units": 5,
    "price": {"amount": 100, "currency": "EUR"},
    "starts_at": "2020-01-01T00:00:00Z",
    "payment": "external",
    "checkout": "cart",
}


class Site:
    def __init__(self, services: Services, app: CellsApp) -> None:
        self.services, self.app = services, app

    async def ask(self, method: str, path: str, body: object = None, *, buyer: str | None = None) -> tuple[int, Any]:
        token = SERVICE_KEY if buyer is None else buyer_token(buyer)
        path, _, query = path.partition("?")
        raw = b"" if body is None else msgspec.json.encode(body)
        request = Request(
            method, path, query, NoConnection([]), "id", f"Bearer {token}", idempotency_key=f"{path}{buyer}", body=raw
        )
        answer = await self.app.answer(request)
        assert answer is not None
        return answer.status, msgspec.json.decode(answer.body) if answer.body.startswith((b"{", b"[")) else answer.body

    async def sell(self, sale_id: str, **more: object) -> dict[str, Any]:
        status, body = await self.ask("POST", "/v1/sales", TERMS | {"sale_id": sale_id, "sku_id": sale_id} | more)
        assert status == 201, body
        sale: dict[str, Any] = body
        return sale

    async def buy(self, sale_id: str, buyer: str) -> tuple[int, Any]:
        return await self.ask("POST", f"/v1/sales/{sale_id}/purchase", {"quantity": 1}, buyer=buyer)


def cell_settings(tmp_path: Path, **urls: str) -> Settings:
    cells = ";".join(f"{name}={url}" for name, url in urls.items())
    new_sqlite_database(tmp_path / "holdfast.db")
    return load_settings(data=tmp_path, cells=cells, service_key=SERVICE_KEY, buyer_secret=BUYER_SECRET)


@asynccontextmanager
async def open_site(settings: Settings, *, background: bool = False) -> AsyncIterator[Site]:
    async with open_cells(settings, background=background) as (services, app):
        yield Site(services, app)
        app.end_streams()
        await app.finish()
