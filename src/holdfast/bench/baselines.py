"""How a hot counter is usually taken: one transaction per request, on PostgreSQL.

Written as well as we know how, because a ratio against a straw man says nothing: a connection of its own for every
client, statements prepared once, the indexes each way needs, unit rows taken in no particular order (asking for the
lowest makes every client walk over what the others have just taken, and halves it).
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import asyncpg
from msgspec import Struct

from holdfast.bench.crowd import Crowd, closed_loop
from holdfast.bench.failure import BenchFailed
from holdfast.bench.rounds import Figure, Round
from holdfast.domain.reservation import new_reservation_id

CLIENTS = 64
STOCK = 1_000_000_000
# More units than any of these ways takes in a second; laid out anew for each round, outside the measured time.
UNITS_PER_SECOND = 15_000
SKU = "bench"
_WARM_UP_S = 0.2

_TABLES = """
    DROP SCHEMA IF EXISTS baseline CASCADE;
    CREATE SCHEMA baseline;
    CREATE TABLE baseline.stock (
        sku_id text PRIMARY KEY,
        available bigint NOT NULL CHECK (available >= 0)
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


# asyncpg prepares what it is given on first use and keeps it per connection.
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


class Way(Struct, frozen=True):
    name: str
    take: Take
    clients: int
    about: str


WAYS = (
    Way("conditional_update", conditional_update, 64, "UPDATE … WHERE available >= 1 per request, 64 clients"),
    Way("for_update", for_update, 64, "SELECT … FOR UPDATE per request, 64 clients"),
    Way("skip_locked_16", skip_locked, 16, "a row per unit, SKIP LOCKED, 16 clients"),
    Way("skip_locked_64", skip_locked, 64, "a row per unit, SKIP LOCKED, 64 clients"),
)


class Baselines:
    def __init__(self, runner: asyncio.Runner, url: str) -> None:
        self._runner = runner
        self._url = url
        self._connections: list[Any] = []

    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(self._url, min_size=CLIENTS, max_size=CLIENTS, timeout=10)
        await self._check_durable()
        await self._pool.execute(_TABLES)
        # Each client keeps its connection: taking one from the pool and resetting it would cost two round trips more.
        self._connections = [await self._pool.acquire() for _ in range(CLIENTS)]

    async def close(self) -> None:
        self._pool.terminate()

    def figures(self, ways: Sequence[Way] = WAYS) -> list[Figure]:
        return [Figure(way.name, way.about, self._measure(way)) for way in ways]

    def _measure(self, way: Way) -> Callable[[float], Round]:
        def run(seconds: float) -> Round:
            self._runner.run(self._sell(way, min(seconds, _WARM_UP_S)))
            return self._runner.run(self._sell(way, seconds)).as_round()

        return run

    async def _sell(self, way: Way, seconds: float) -> Crowd:
        units = await self._lay_out(way, seconds)
        numbers = itertools.count(1)

        def attempt(number: int) -> Awaitable[bool]:
            owner_id = f"owner-{next(numbers)}"
            return way.take(self._connections[number], new_reservation_id(SKU, owner_id), owner_id)

        crowd = await closed_loop(way.clients, seconds, attempt)
        await self._check(way, crowd, units)
        return crowd

    async def _lay_out(self, way: Way, seconds: float) -> int:
        units = int(UNITS_PER_SECOND * seconds) + 1000 if way.take is skip_locked else 0
        connection = self._connections[0]
        await connection.execute("TRUNCATE baseline.stock, baseline.units, baseline.reservations")
        await connection.execute("INSERT INTO baseline.stock VALUES ($1, $2)", SKU, STOCK)
        await connection.execute(
            "INSERT INTO baseline.units SELECT n, $1 FROM generate_series(1, $2::int) n", SKU, units
        )
        await connection.execute("VACUUM ANALYZE baseline.stock, baseline.units, baseline.reservations")
        return units

    async def _check(self, way: Way, crowd: Crowd, units: int) -> None:
        connection = self._connections[0]
        rows = await connection.fetchval("SELECT count(*) FROM baseline.reservations")
        if units:
            gone = await connection.fetchval("SELECT count(reservation_id) FROM baseline.units")
        else:
            gone = STOCK - await connection.fetchval("SELECT available FROM baseline.stock")
        if not gone == rows == crowd.granted or crowd.refused:
            told = f"{crowd.granted} granted, {crowd.refused} refused"
            raise BenchFailed(f"{way.name}: {told}, but {gone} units are gone and {rows} reservations are there")

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
