"""Starts Holdfast servers for a measurement, each in its own process on a free port, and defines checked loads."""

import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
from msgspec import Struct

from holdfast.domain.stock.limits import MAX_TOTAL_UNITS
from holdfast.lab.load.engines import free_port
from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.load.processes import Process, clean_environment, python, running
from holdfast.lab.load.spec import BUYER, NUMBER, Load, LoadResult

# Generous, so that a busy machine leads to slow figures, not to a failed start.
START_TIMEOUT_S = 90.0
_CALM_S = 20.0
# Long enough that no hold expires before the counts are compared.
RESERVE_BODY = f'{{"owner_id":"owner-{NUMBER}","quantity":1,"ttl_seconds":1800}}'
_KEYED_BODY = f'{{"owner_id":"owner-{NUMBER}","quantity":1,"ttl_seconds":1800,"idempotency_key":"key-{NUMBER}"}}'


class CheckedLoad(Struct, frozen=True):
    """One round's load on fresh stock: the expected status, and a check to run afterwards."""

    load: Load
    status: int
    check: Callable[[LoadResult], None]

    def verify(self, name: str, result: LoadResult) -> None:
        """wrk reports only whether a status was 2xx."""
        wrong = result.refused if self.status < 300 else result.good
        if wrong or result.failed or any(status != self.status for status in result.statuses):
            received = result.statuses or f"{result.good} of 2xx and {result.refused} others"
            raise BenchFailed(
                f"{name}: wanted {self.status} only, got {received} and {result.failed} broken connections"
            )
        self.check(result)


class Holdfast:
    """A server with our API: ours, or a peer that it is compared with."""

    def __init__(self, process: Process, port: int, key: str, buyer_secret: str) -> None:
        self.process = process
        self.port = port
        self.key = key
        self.buyer_secret = buyer_secret
        self._authorization = f"Bearer {key}"
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": self._authorization}, trust_env=False
        )
        self._pools = 0

    def close(self) -> None:
        self._client.close()

    def reserve(self, *, units: int = MAX_TOTAL_UNITS, keyed: bool = False) -> CheckedLoad:
        sku_id = self._new_pool(units)
        body = _KEYED_BODY if keyed else RESERVE_BODY
        load = Load(self.port, "POST", f"/v1/inventory/{sku_id}/reserve", body, self._authorization)
        return CheckedLoad(load, 200 if units else 409, lambda result: self._check_held(sku_id, result))

    def available(self) -> CheckedLoad:
        load = Load(self.port, "GET", f"/v1/inventory/{self._new_pool(1000)}/available", "", self._authorization)
        return CheckedLoad(load, 200, lambda _: None)

    def purchases(self, *, units: int = MAX_TOTAL_UNITS) -> CheckedLoad:
        """Purchases, each by another buyer with a token and an idempotency key."""
        sale_id = self._next_name()
        self.create_sale(
            {
                "sale_id": sale_id,
                "sku_id": sale_id,
                "name": "Bench",
                "total_units": units,
                "price": {"amount": 100, "currency": "EUR"},
                "starts_at": "2020-01-01T00:00:00Z",
                "hold_seconds": 1_800,
                "payment": "external",
            }
        )
        path = f"/v1/sales/{sale_id}/purchase"
        load = Load(self.port, "POST", path, '{"quantity":1}', BUYER, buyer_secret=self.buyer_secret, keyed=True)
        return CheckedLoad(load, 201 if units else 409, lambda result: self._check_held(sale_id, result))

    def create_sale(self, terms: dict[str, Any]) -> None:
        self._client.post("/v1/sales", json=terms).raise_for_status()

    def requests_answered(self) -> int:
        """The number of answered requests, as the server counts them."""
        text = self._client.get("/metrics").raise_for_status().text
        counts = re.findall(r"^holdfast_http_requests_total\{.*\} (\S+)$", text, re.MULTILINE)
        return int(sum(map(float, counts)))

    def joined(self, sale_id: str) -> int:
        return int(self._client.get(f"/v1/sales/{sale_id}/room").raise_for_status().json()["joined"])

    def _new_pool(self, units: int) -> str:
        sku_id = self._next_name()
        self._client.put(f"/v1/inventory/{sku_id}", json={"total_units": units}).raise_for_status()
        return sku_id

    def _next_name(self) -> str:
        self._pools += 1
        # Several servers may share a ledger, so names contain the port.
        return f"bench-{self.port}-{self._pools}"

    def held(self, sku_id: str) -> int:
        """Right after an overload, the server may refuse reads for a moment."""
        until = time.monotonic() + _CALM_S
        while (answer := self._client.get(f"/v1/inventory/{sku_id}/available")).status_code == 503:
            if time.monotonic() > until:
                break
            time.sleep(0.1)
        return int(answer.raise_for_status().json()["held"])

    def _check_held(self, sku_id: str, result: LoadResult) -> None:
        check_taken(sku_id, result, self.held(sku_id))


def answers(url: str) -> bool:
    try:
        # Loading all certificates for every poll would be slow.
        return httpx.get(url, trust_env=False, verify=False).status_code == 200  # noqa: S501 - plain HTTP on loopback
    except httpx.TransportError:
        return False


def check_taken(name: str, result: LoadResult, taken: int) -> None:
    """Every grant took a unit, and no unit was taken without a grant, except for requests whose response nobody waited
    for."""
    if not result.good <= taken <= result.good + result.cut_off:
        raise BenchFailed(f"{name}: {result.good} were granted, but {taken} units are gone")


class Place(Struct, frozen=True):
    """Where Holdfast keeps its data; by default the embedded database."""

    directory: Path
    database_url: str | None = None
    redis_url: str | None = None

    def settings(self, **more: str) -> dict[str, str]:
        given = {"HOLDFAST_DATABASE_URL": self.database_url, "HOLDFAST_REDIS_URL": self.redis_url}
        return clean_environment(**{name: value for name, value in given.items() if value is not None}, **more)


def new_service_key() -> str:
    return "hf_" + secrets.token_urlsafe(32)


@contextmanager
def holdfast_server(
    place: Place, *, workers: int = 1, background: bool | None = None, **settings: str
) -> Iterator[Holdfast]:
    """By default no background tasks in Redis mode, where a separate process drains the journal (`holdfast_worker`)."""
    port, key = free_port(), new_service_key()
    buyer_secret = settings.setdefault("HOLDFAST_BUYER_SECRET", secrets.token_hex(16))
    command = python("holdfast", "serve", "--port", str(port), "--data", str(place.directory / "data"))
    has_background = not place.redis_url if background is None else background
    command += ["--workers", str(workers)] + ([] if has_background else ["--no-background"])
    name = f"holdfast-{workers}"
    environment = place.settings(HOLDFAST_SERVICE_KEY=key, **settings)
    with (
        running(name, command, place.directory, environment) as process,
        closing(Holdfast(process, port, key, buyer_secret)) as server,
    ):
        process.await_ready(lambda: answers(f"http://127.0.0.1:{port}/healthz/ready"), START_TIMEOUT_S)
        yield server


@contextmanager
def holdfast_worker(place: Place, **settings: str) -> Iterator[None]:
    command = python("holdfast", "worker", "--data", str(place.directory / "data"))
    with running("worker", command, place.directory, place.settings(**settings)):
        yield
