"""The servers that are driven, each a process of its own on a free port, all of them started alike."""

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
from msgspec import Struct

from holdfast.bench.engines import free_port
from holdfast.bench.failure import BenchFailed
from holdfast.bench.load import NUMBER, Answers, Load
from holdfast.bench.processes import Process, clean_environment, python, running
from holdfast.domain.pool import MAX_TOTAL_UNITS

# Long: whoever measures on a machine that is busy gets figures that say so, and not a failure to start.
_START_TIMEOUT_S = 90.0
_CALM_S = 20.0
# Long enough that no hold ends while its count is still to be compared.
_BODY = f'{{"owner_id":"owner-{NUMBER}","quantity":1,"ttl_seconds":1800}}'
_KEYED_BODY = f'{{"owner_id":"owner-{NUMBER}","quantity":1,"ttl_seconds":1800,"idempotency_key":"key-{NUMBER}"}}'
_TUTORIAL_BODY = f'{{"owner_id":"owner-{NUMBER}","quantity":1}}'


class Shot(Struct, frozen=True):
    """One round's load on fresh stock: what every answer must be, and what must be true afterwards."""

    load: Load
    status: int
    check: Callable[[Answers], None]

    def verify(self, name: str, answers: Answers) -> None:
        """wrk does not tell statuses, only whether they were 2xx."""
        wrong = answers.refused if self.status < 300 else answers.good
        if wrong or answers.failed or any(status != self.status for status in answers.statuses):
            told = answers.statuses or f"{answers.good} of 2xx and {answers.refused} others"
            raise BenchFailed(f"{name}: wanted {self.status} only, got {told} and {answers.failed} broken connections")
        self.check(answers)


class Holdfast:
    def __init__(self, process: Process, port: int, key: str) -> None:
        self.process = process
        self.port = port
        self.key = key
        self._authorization = f"Bearer {key}"
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": self._authorization}, trust_env=False
        )
        self._pools = 0

    def close(self) -> None:
        self._client.close()

    def is_ready(self) -> bool:
        try:
            return self._client.get("/healthz/ready").status_code == 200
        except httpx.TransportError:
            return False

    def reserve(self, *, units: int = MAX_TOTAL_UNITS, keyed: bool = False) -> Shot:
        sku_id = self._new_pool(units)
        body = _KEYED_BODY if keyed else _BODY
        load = Load(self.port, "POST", f"/v1/inventory/{sku_id}/reserve", body, self._authorization)
        return Shot(load, 200 if units else 409, lambda answers: self._check_held(sku_id, answers))

    def available(self) -> Shot:
        load = Load(self.port, "GET", f"/v1/inventory/{self._new_pool(1000)}/available", "", self._authorization)
        return Shot(load, 200, lambda _: None)

    def create_sale(self, terms: dict[str, Any]) -> None:
        self._client.post("/v1/sales", json=terms).raise_for_status()

    def joined(self, sale_id: str) -> int:
        """How long the line is."""
        return int(self._client.get(f"/v1/sales/{sale_id}/room").raise_for_status().json()["joined"])

    def _new_pool(self, units: int) -> str:
        self._pools += 1
        # Several servers may share their books.
        sku_id = f"bench-{self.port}-{self._pools}"
        self._client.put(f"/v1/inventory/{sku_id}", json={"total_units": units}).raise_for_status()
        return sku_id

    def held(self, sku_id: str) -> int:
        """After a storm it takes a moment until reads are answered again."""
        until = time.monotonic() + _CALM_S
        while (answer := self._client.get(f"/v1/inventory/{sku_id}/available")).status_code == 503:
            if time.monotonic() > until:
                break
            time.sleep(0.1)
        return int(answer.raise_for_status().json()["held"])

    def _check_held(self, sku_id: str, answers: Answers) -> None:
        check_taken(sku_id, answers, self.held(sku_id))


class Tutorial:
    def __init__(self, port: int, redis_url: str) -> None:
        from redis import Redis  # noqa: PLC0415 - an optional extra

        self._port = port
        self._redis = Redis.from_url(redis_url, decode_responses=True)
        self._pools = 0

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self._port}/health", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def reserve(self, *, units: int = MAX_TOTAL_UNITS) -> Shot:
        self._pools += 1
        stock = f"stock:sku-{self._pools}"
        self._redis.set(stock, units)
        load = Load(self._port, "POST", f"/inventory/sku-{self._pools}/reserve", _TUTORIAL_BODY)
        return Shot(load, 200 if units else 409, lambda answers: self._check_stock(stock, units, answers))

    def _check_stock(self, stock: str, units: int, answers: Answers) -> None:
        check_taken(stock, answers, units - int(str(self._redis.get(stock))))

    def redis_version(self) -> str:
        facts: Any = self._redis.info("server")
        return str(facts.get("valkey_version") or facts["redis_version"])


def check_taken(name: str, answers: Answers, taken: int) -> None:
    """Every yes is a unit gone, and no unit is gone without a yes, but for those whose answer nobody waited for."""
    if not answers.good <= taken <= answers.good + answers.cut_off:
        raise BenchFailed(f"{name}: {answers.good} were granted, but {taken} units are gone")


def bare_reserve(port: int) -> Shot:
    """What the others are asked, asked of a handler that only answers."""
    authorization = f"Bearer hf_{'0' * 43}"
    load = Load(port, "POST", "/v1/inventory/bench/reserve", _BODY, authorization)
    return Shot(load, 200, lambda _: None)


class Place(Struct, frozen=True):
    """Where Holdfast keeps its books, and where it decides: nothing said is the embedded database."""

    directory: Path
    database_url: str | None = None
    redis_url: str | None = None

    def settings(self, **more: str) -> dict[str, str]:
        given = {"HOLDFAST_DATABASE_URL": self.database_url, "HOLDFAST_REDIS_URL": self.redis_url}
        return clean_environment(**{name: value for name, value in given.items() if value is not None}, **more)


@contextmanager
def holdfast_server(place: Place, *, workers: int = 1, **settings: str) -> Iterator[Holdfast]:
    """Where Redis decides, the journal is drained by a process of its own (`holdfast_worker`)."""
    port, key = free_port(), "hf_" + secrets.token_urlsafe(32)
    command = python("holdfast", "serve", "--port", str(port), "--data", str(place.directory / "data"))
    command += ["--workers", str(workers)] + (["--no-background"] if place.redis_url else [])
    name = f"holdfast-{workers}"
    environment = place.settings(HOLDFAST_SERVICE_KEY=key, **settings)
    with (
        running(name, command, place.directory, environment) as process,
        closing(Holdfast(process, port, key)) as server,
    ):
        process.await_ready(server.is_ready, _START_TIMEOUT_S)
        yield server


@contextmanager
def holdfast_worker(place: Place, **settings: str) -> Iterator[None]:
    command = python("holdfast", "worker", "--data", str(place.directory / "data"))
    with running("worker", command, place.directory, place.settings(**settings)):
        yield


@contextmanager
def bare_server(directory: Path, interface: str) -> Iterator[int]:
    port = free_port()
    command = python("holdfast.bench.bare", str(port), interface)
    with running(f"bare-{interface}", command, directory, clean_environment()) as process:
        process.await_ready(lambda: _listens(port), _START_TIMEOUT_S)
        yield port


def _listens(port: int) -> bool:
    try:
        return httpx.post(f"http://127.0.0.1:{port}/", content=b"{}", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@contextmanager
def tutorial_server(directory: Path, redis_url: str) -> Iterator[Tutorial]:
    port = free_port()
    # One process, as ours; without the access log, which would cost it a tenth.
    command = python("uvicorn", "holdfast.bench.tutorial:app", "--port", str(port), "--no-access-log")
    with running("tutorial", command, directory, clean_environment(TUTORIAL_REDIS_URL=redis_url)) as process:
        server = Tutorial(port, redis_url)
        process.await_ready(server.is_ready, _START_TIMEOUT_S)
        yield server
