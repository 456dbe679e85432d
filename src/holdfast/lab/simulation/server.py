"""The Holdfast server under test: `holdfast serve` in its own directory, with a slow payment provider."""

import asyncio
import secrets
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import httpx
import msgspec
from msgspec import Struct

from holdfast.errors import Unavailable
from holdfast.lab.load.buyer_tokens import BuyerTokens
from holdfast.lab.load.engines import free_port
from holdfast.lab.load.processes import clean_environment, python
from holdfast.lab.load.servers import Place, answers, new_service_key
from holdfast.lab.simulation.children import Child
from holdfast.lab.simulation.options import Engine
from holdfast.lab.simulation.stores import Stores
from holdfast.runtime.times import rfc3339

SALE = "simulation"
PRICE = {"amount": 4_900, "currency": "EUR"}
# The minimum duration of a card payment, which is the same at the simple shops' provider.
PAYMENT_S = 0.15
READ_TIMEOUT_S = 1.0
# Generous, for a busy machine.
VERIFY_TIMEOUT_S = 120.0
# The number of confirmed orders, and of buyers who were charged more than once.
_SOLD = """
    SELECT (SELECT count(*) FROM orders WHERE status = 'confirmed'),
           (SELECT count(*) FROM (SELECT buyer_id FROM payments WHERE state = 'captured'
                                  GROUP BY buyer_id HAVING count(*) > 1) AS charged_again)
"""


class Sold(NamedTuple):
    orders: int
    twice: int


class Stock(Struct, frozen=True):
    total_units: int
    available: int
    held: int
    sold: int


class _Check(Struct, frozen=True):
    name: str
    ok: bool


class _Checked(Struct, frozen=True):
    ok: bool
    checks: list[_Check]


class Verdict(Struct, frozen=True):
    """The result of `holdfast verify`, by the names of its checks."""

    ok: bool
    passed: list[str]
    failed: list[str]


class ServerUnderTest:
    def __init__(self, stores: Stores, engine: Engine, directory: Path) -> None:
        self._stores, self._engine, self._directory = stores, engine, directory
        self.port, self._key = free_port(), new_service_key()
        self._buyer_secret = secrets.token_hex(16)
        self.tokens = BuyerTokens(self._buyer_secret)
        self._database_url = f"sqlite:///{self._file}"
        self._sandbox_url = ""
        self._server: Child | None = None
        self._sandbox: Child | None = None
        self._ledger: Any = None
        self._reading = asyncio.Lock()
        self._client = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}",
            headers={"Authorization": f"Bearer {self._key}"},
            timeout=READ_TIMEOUT_S,
            trust_env=False,
        )

    @property
    def _file(self) -> Path:
        return self._directory / "data" / "holdfast.db"

    @property
    def has_redis(self) -> bool:
        return self._engine is Engine.REDIS

    async def start(self) -> None:
        place = Place(self._directory)
        if self.has_redis:
            await asyncio.to_thread(self._stores.start_postgres)
            self._database_url = await self._stores.create_database()
            redis_url = await asyncio.to_thread(self._stores.redis_url)
            place = Place(self._directory, self._database_url, redis_url)
        self._sandbox = self._make_sandbox()
        self._server = self._make_server(place)
        await asyncio.gather(asyncio.to_thread(self._sandbox.start), asyncio.to_thread(self._server.start))
        slow = {"slow": 1.0, "slow_ms": int(PAYMENT_S * 1_000)}
        (await self._client.put(f"{self._sandbox_url}/faults", json=slow)).raise_for_status()

    def _make_sandbox(self) -> Child:
        port = free_port()
        self._sandbox_url = f"http://127.0.0.1:{port}"
        command = python("holdfast", "sandbox", "--port", str(port))
        is_ready = f"{self._sandbox_url}/faults"
        return Child("sandbox", command, self._directory, lambda: answers(is_ready), clean_environment())

    def _make_server(self, place: Place) -> Child:
        environment = place.settings(
            HOLDFAST_SERVICE_KEY=self._key,
            HOLDFAST_BUYER_SECRET=self._buyer_secret,
            HOLDFAST_PAYMENT_SANDBOX_URL=self._sandbox_url,
        )
        command = python("holdfast", "serve", "--port", str(self.port), "--data", str(self._directory / "data"))
        ready = f"http://127.0.0.1:{self.port}/healthz/ready"
        return Child("server", command, self._directory, lambda: answers(ready), environment)

    async def open_sale(self, units: int) -> None:
        terms = {
            "sale_id": SALE,
            "sku_id": SALE,
            "name": "Simulation",
            "total_units": units,
            "price": PRICE,
            "starts_at": rfc3339(int(datetime.now(UTC).timestamp() * 1000)),
            "checkout": "instant",
            "payment": "sandbox",
            "per_buyer_limit": 1,
        }
        response = await self._client.post("/v1/sales", json=terms, timeout=30)
        if response.status_code != 201:
            raise Unavailable(f"the sale could not be created: {response.text}")

    async def restart(self) -> None:
        """`kill -9`, then a new start."""
        assert self._server is not None
        await asyncio.to_thread(self._server.kill)
        await asyncio.to_thread(self._server.start)

    async def freeze_database(self, seconds: float) -> None:
        if self.has_redis:
            try:
                await self._stores.freeze_postgres()
                await asyncio.sleep(seconds)
            finally:
                self._stores.unfreeze()
        else:
            await hold_write_lock(self._file, seconds)

    async def read_stock(self) -> Stock | None:
        """The stock as the gate sees it; None if there is no response in time."""
        try:
            response = await self._client.get(f"/v1/inventory/{SALE}/available")
        except httpx.TransportError:
            return None
        return msgspec.json.decode(response.content, type=Stock) if response.status_code == 200 else None

    async def count_sold(self) -> Sold | None:
        """Reads the ledger directly, without the server; None if it does not respond in time."""
        # One at a time: a read that times out closes the connection.
        async with self._reading:
            try:
                async with asyncio.timeout(READ_TIMEOUT_S):
                    return await (
                        self._count_in_postgres() if self.has_redis else asyncio.to_thread(self._count_in_file)
                    )
            except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError, sqlite3.Error):
                self._close_ledger()
                return None

    def _count_in_file(self) -> Sold:
        connection = sqlite3.connect(f"file:{self._file}?mode=ro", uri=True, timeout=READ_TIMEOUT_S)
        try:
            return Sold(*connection.execute(_SOLD).fetchone())
        finally:
            connection.close()

    async def _count_in_postgres(self) -> Sold:
        if self._ledger is None:
            self._ledger = await asyncpg.connect(self._database_url)
        return Sold(*await self._ledger.fetchrow(_SOLD))

    def _close_ledger(self) -> None:
        if self._ledger is not None:
            self._ledger.terminate()
            self._ledger = None

    async def verify(self) -> Verdict:
        """Runs `holdfast verify` after the server has stopped, including the payment provider's records."""
        if self._server is not None:
            await asyncio.to_thread(self._server.stop)
        command = python("holdfast", "verify", "--json", "--database-url", self._database_url)
        process = await asyncio.create_subprocess_exec(
            *command, "--against-sandbox", self._sandbox_url, cwd=self._directory, env=clean_environment(),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            async with asyncio.timeout(VERIFY_TIMEOUT_S):
                output, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode not in (0, 1):
            raise Unavailable(f"holdfast verify failed: {errors.decode(errors='replace')[-500:]}")
        checked = msgspec.json.decode(output, type=_Checked)
        passed, failed = ([check.name for check in checked.checks if check.ok is ok] for ok in (True, False))
        return Verdict(checked.ok, passed, failed)

    async def close(self) -> None:
        self._close_ledger()
        await self._client.aclose()
        for child in (self._server, self._sandbox):
            if child is not None:
                await asyncio.to_thread(child.kill)


async def hold_write_lock(file: Path, seconds: float) -> None:
    """Behaves like a stuck transaction: others can read, but nobody can write."""
    connection = await asyncio.to_thread(_lock, file)
    try:
        await asyncio.sleep(seconds)
    finally:
        connection.close()


def _lock(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=10, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")
    return connection
