"""The usual ways to take from a hot counter on PostgreSQL: one transaction per request.

Each is implemented as well as we can, because a ratio against a weak baseline means nothing: one connection per client,
prepared statements, the indexes each one needs, and unit rows taken in no particular order (taking the lowest makes
every client scan what the others have just locked, and halves the throughput).
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import asyncpg
from msgspec import Struct

from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.lab.bench.measure.closed_loop import LoopResult, closed_loop, warmed_up
from holdfast.lab.bench.measure.rounds import Figure
from holdfast.lab.load.failure import BenchFailed

CLIENTS = 64
STOCK = 1_000_000_000
# More units than any baseline takes in a second; created before each round, outside the measured time.
UNITS_PER_SECOND = 15_000
SKU = "bench"

_TABLES = """
    DROP SCHEMA IF EXISTS baseline CASCADE;
    CREATE SCHEMA baseline;
    CREATE TABLE baseline.stock (
        sku_id text PRIMARY KEY,
        available bigint NOT NULL CHECK (available >= 0),
        version bigint NOT NULL DEFAULT 0
    );
    CREATE TABLE baseline.reservations (
        reservation_id text PRIMARY KEY,
        sku_id text NOT NULL,
        owner_id text NOT NULL,
        quantity bigint NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now()
    );
    CREATE TABLE baseline.units (
        unit_id bigint PRIMARY KEY,
        sku_id text NOT NULL,
        reservation_id text
    );
    CREATE INDEX units_free ON baseline.units (sku_id) WHERE reservation_id IS NULL;
"""
RESERVE = "INSERT INTO baseline.reservations (reservation_id, sku_id, owner_id, quantity) VALUES ($1, $2, $3, 1)"
_TAKE_IF_THERE = "UPDATE baseline.stock SET available = available - 1 WHERE sku_id = $1 AND available >= 1"
_LOCK = "SELECT available FROM baseline.stock WHERE sku_id = $1 FOR UPDATE"
_TAKE = "UPDATE baseline.stock SET available = available - 1 WHERE sku_id = $1"
_TAKE_UNIT = """
    UPDATE baseline.units SET reservation_id = $2
    WHERE unit_id = (
        SELECT unit_id FROM baseline.units
        WHERE sku_id = $1 AND reservation_id IS NULL
        LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    RETURNING unit_id
"""


# asyncpg prepares statements on first use and caches them per connection.
Take = Callable[[Any, str, str], Awaitable[bool]]


async def conditional_update(connection: Any, reservation_id: str, owner_id: str) -> bool:
    async with connection.transaction():
        if await connection.execute(_TAKE_IF_THERE, SKU) != "UPDATE 1":
            return False
        await connection.execute(RESERVE, reservation_id, SKU, owner_id)
    return True


async def for_update(connection: Any, reservation_id: str, owner_id: str) -> bool:
    async with connection.transaction():
        if await connection.fetchval(_LOCK, SKU) < 1:
            return False
        await connection.execute(_TAKE, SKU)
        await connection.execute(RESERVE, reservation_id, SKU, owner_id)
    return True


async def skip_locked(connection: Any, reservation_id: str, owner_id: str) -> bool:
    async with connection.transaction():
        if await connection.fetchval(_TAKE_UNIT, SKU, reservation_id) is None:
            return False
        await connection.execute(RESERVE, reservation_id, SKU, owner_id)
    return True


class Baseline(Struct, frozen=True):
    name: str
    take: Take
    clients: int
    about: str


BASELINES = (
    Baseline("conditional_update", conditional_update, 64, "UPDATE … WHERE available >= 1 per request, 64 clients"),
    Baseline("for_update", for_update, 64, "SELECT … FOR UPDATE per request, 64 clients"),
    Baseline("skip_locked_16", skip_locked, 16, "a row per unit, SKIP LOCKED, 16 clients"),
    Baseline("skip_locked_64", skip_locked, 64, "a row per unit, SKIP LOCKED, 64 clients"),
)


class Baselines:
    def __init__(self, runner: asyncio.Runner, url: str) -> None:
        self._runner = runner
        self._url = url
        self.connections: list[Any] = []

    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(self._url, min_size=CLIENTS, max_size=CLIENTS, timeout=10)
        await self._check_durable()
        await self._pool.execute(_TABLES)
        # Each client keeps its connection: acquiring one from the pool and resetting it would cost two more round
        # trips.
        self.connections = [await self._pool.acquire() for _ in range(CLIENTS)]

    async def close(self) -> None:
        self._pool.terminate()

    def figures(self, baselines: Sequence[Baseline] = BASELINES) -> list[Figure]:
        return [
            Figure(baseline.name, baseline.about, warmed_up(self._runner, partial(self._sell, baseline)))
            for baseline in baselines
        ]

    async def _sell(self, baseline: Baseline, seconds: float) -> LoopResult:
        units = int(UNITS_PER_SECOND * seconds) + 1000 if baseline.take is skip_locked else 0
        await self.lay_out(STOCK, units)
        numbers = itertools.count(1)

        def attempt(number: int) -> Awaitable[bool]:
            owner_id = f"owner-{next(numbers)}"
            return baseline.take(self.connections[number], new_reservation_id(SKU, owner_id), owner_id)

        result = await closed_loop(baseline.clients, seconds, attempt)
        await self._check(baseline, result, units)
        return result

    async def lay_out(self, available: int, units: int) -> None:
        connection = self.connections[0]
        await connection.execute("TRUNCATE baseline.stock, baseline.units, baseline.reservations")
        await connection.execute("INSERT INTO baseline.stock VALUES ($1, $2)", SKU, available)
        await connection.execute(
            "INSERT INTO baseline.units SELECT n, $1 FROM generate_series(1, $2::int) n", SKU, units
        )
        await connection.execute("VACUUM ANALYZE baseline.stock, baseline.units, baseline.reservations")

    async def reserved(self) -> int:
        return int(await self.connections[0].fetchval("SELECT count(*) FROM baseline.reservations"))

    async def _check(self, baseline: Baseline, result: LoopResult, units: int) -> None:
        connection = self.connections[0]
        rows = await self.reserved()
        if units:
            gone = await connection.fetchval("SELECT count(reservation_id) FROM baseline.units")
        else:
            gone = STOCK - await connection.fetchval("SELECT available FROM baseline.stock")
        if not gone == rows == result.granted or result.refused:
            told = f"{result.granted} granted, {result.refused} refused"
            raise BenchFailed(f"{baseline.name}: {told}, but {gone} units are gone and {rows} reservations are there")

    async def _check_durable(self) -> None:
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            value = await self._pool.fetchval(f"SHOW {name}")
            if value != "on":
                raise BenchFailed(f"PostgreSQL runs with {name}={value}; these figures are for data that is on disk")


@contextmanager
def open_baselines(runner: asyncio.Runner, url: str) -> Iterator[Baselines]:
    baselines = Baselines(runner, url)
    runner.run(baselines.open())
    try:
        yield baselines
    finally:
        runner.run(baselines.close())
