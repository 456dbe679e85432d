"""Sends requests to the server's code in this process, as granian hands them over, and receives the responses."""

import asyncio
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from pydantic import SecretStr

from holdfast.bootstrap.services import open_services
from holdfast.domain.stock.limits import MAX_TOTAL_UNITS
from holdfast.http.server.app import App
from holdfast.http.server.rsgi import RsgiApp
from holdfast.http.server.traced_app import build_app
from holdfast.lab.load.buyer_tokens import BuyerTokens
from holdfast.lab.load.engines import postgres, valkey
from holdfast.lab.load.failure import BenchFailed
from holdfast.settings import Settings

_SALE = {
    "name": "Budget",
    "price": {"amount": 100, "currency": "EUR"},
    "starts_at": "2020-01-01T00:00:00Z",
    "payment": "external",
}


class _Headers(dict[str, str]):
    def get_all(self, name: str) -> list[str]:
        return [self[name]] if name in self else []


class Asked(Struct, frozen=True):
    """A request and its expected status."""

    status: int
    method: str
    path: str
    headers: dict[str, str] = {}
    body: bytes = b""


class _Scope:
    query_string, client = "", "127.0.0.1:50000"

    def __init__(self, asked: Asked) -> None:
        self.method, self.path = asked.method, asked.path
        self.headers = _Headers(asked.headers)
        if asked.method != "GET":
            self.headers["content-length"] = str(len(asked.body))


class _Protocol:
    def __init__(self, body: bytes) -> None:
        self._body, self.status, self.answer = body, 0, b""

    async def __call__(self) -> bytes:
        return self._body

    async def client_disconnect(self) -> None:
        await asyncio.Event().wait()

    def response_bytes(self, status: int, _headers: Any, answer: bytes) -> None:
        self.status, self.answer = status, answer


class InProcess:
    """A server without sockets."""

    def __init__(self, app: App, key: str, tokens: BuyerTokens) -> None:
        self._app, self._tokens = RsgiApp(app), tokens
        self._service = {"authorization": f"Bearer {key}"}
        self._numbers = count(1)

    async def kinds(self) -> dict[str, Callable[[], Asked]]:
        """The kinds of requests that have a budget; each call creates a new one."""
        await self._set_up(
            Asked(200, "PUT", "/v1/inventory/pool", self._service, b'{"total_units":%d}' % MAX_TOTAL_UNITS)
        )
        await self._new_sale("open", total_units=MAX_TOTAL_UNITS, hold_seconds=1_800)
        await self._new_sale("empty", total_units=0)
        await self._new_sale("queue", total_units=1, starts_at="2100-01-01T00:00:00Z", room={"mode": "fifo"})
        return {
            "reserve": self._reserve,
            "purchase": lambda: self._purchase("open", 201),
            "keyed_refusal": lambda: self._purchase("empty", 409),
            "now": lambda: Asked(200, "GET", "/v1/sales/queue/now"),
            "join": lambda: Asked(200, "POST", "/v1/sales/queue/queue", self._buyer()),
        }

    def _reserve(self) -> Asked:
        body = b'{"owner_id":"owner-%d","quantity":1,"ttl_seconds":1800}' % next(self._numbers)
        return Asked(200, "POST", "/v1/inventory/pool/reserve", self._service, body)

    def _purchase(self, sale_id: str, status: int) -> Asked:
        headers = self._buyer() | {"idempotency-key": f"key-{next(self._numbers)}"}
        return Asked(status, "POST", f"/v1/sales/{sale_id}/purchase", headers, b'{"quantity":1}')

    def _buyer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._tokens.sign(f'buyer-{next(self._numbers)}').decode()}"}

    async def _new_sale(self, sale_id: str, **terms: object) -> None:
        body = msgspec.json.encode(_SALE | {"sale_id": sale_id, "sku_id": sale_id} | terms)
        await self._set_up(Asked(201, "POST", "/v1/sales", self._service, body))

    async def _set_up(self, asked: Asked) -> None:
        self.check(asked, await self.answered(asked))

    async def answered(self, asked: Asked) -> _Protocol:
        protocol = _Protocol(asked.body)
        await self._app.__rsgi__(_Scope(asked), protocol)
        return protocol

    def check(self, asked: Asked, got: _Protocol) -> None:
        if got.status != asked.status:
            raise BenchFailed(
                f"{asked.method} {asked.path}: wanted {asked.status}, got {got.status} {got.answer[:300]!r}"
            )


@contextmanager
def stores_of(engine: str) -> Iterator[tuple[Path, dict[str, str]]]:
    """An empty directory, and the settings of stores started for this run."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-budgets-")))
        stores = {} if engine == "sqlite" else {"database_url": stack.enter_context(postgres())}
        if engine == "redis":
            stores["redis_url"] = stack.enter_context(valkey(fsync="always"))
        yield directory, stores


@asynccontextmanager
async def open_in_process(directory: Path, **stores: str | float) -> AsyncIterator[InProcess]:
    """`stores` are settings. Background work is off, because it belongs to no request."""
    key, secret = "hf_" + secrets.token_urlsafe(32), secrets.token_hex(16)
    given: dict[str, Any] = {"service_key": SecretStr(key), "buyer_secret": SecretStr(secret), **stores}
    settings = Settings(data=directory, **given)
    async with open_services(settings, background=False) as services:
        yield InProcess(build_app(services), key, BuyerTokens(secret))
