"""Four shops that sell the same units to the same buyers, each in a way that looks correct."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from holdfast.lab.simulation.shops.order_book import OrderBook

REDIS_TIMEOUT_S = 2.0
_CONNECTIONS = 64


class Kind(Struct, frozen=True):
    name: str
    title: str
    about: str
    code: str
    needs_redis: bool


KINDS = (
    Kind(
        "read_then_write",
        "Check, pay, then write",
        "Reads the stock from SQL, takes the payment, and then writes one less.",
        "SELECT available; pay(); UPDATE stock SET available = available - 1",
        needs_redis=False,
    ),
    Kind(
        "get_then_set",
        "Redis GET and SET",
        "Reads a counter in Redis, takes the payment, and then stores the number it read minus one.",
        "n = GET stock; pay(); SET stock n - 1",
        needs_redis=True,
    ),
    Kind(
        "decrement",
        "Redis DECR",
        "An atomic counter in a cache. If the counter is missing, it is loaded from the catalogue.",
        "if missing: SET stock units; if DECR stock >= 0: pay()",
        needs_redis=True,
    ),
    Kind(
        "conditional_update",
        "Conditional UPDATE",
        "Takes a unit from SQL only if one is left. Right about the stock, but each click is a new order.",
        "UPDATE stock SET available = available - 1 WHERE available >= 1",
        needs_redis=False,
    ),
)


def kinds(*, has_redis: bool) -> list[Kind]:
    return [kind for kind in KINDS if has_redis or not kind.needs_redis]


Pay = Callable[[], Awaitable[None]]
_KEY = "stock:{}"


class Shop:
    def __init__(self, kind: Kind, book: OrderBook, redis: Redis | None, units: int, pay: Pay) -> None:
        self.kind, self.book = kind, book
        self._units, self._pay = units, pay
        self._redis = redis
        self._key = _KEY.format(kind.name)
        ways = {
            "read_then_write": self._read_then_write,
            "get_then_set": self._get_then_set,
            "decrement": self._decrement,
            "conditional_update": self._conditional_update,
        }
        self._buy = ways[kind.name]
        # The number of requests that failed with a server error.
        self.errors = 0

    async def buy(self, buyer_id: str) -> bool:
        """Returns False if the shop is sold out."""
        return await self._buy(buyer_id)

    async def _read_then_write(self, buyer_id: str) -> bool:
        if await self.book.available() < 1:
            return False
        await self._pay()
        await self.book.take(buyer_id)
        return True

    async def _conditional_update(self, buyer_id: str) -> bool:
        if not await self.book.take_if_available(buyer_id):
            return False
        await self._pay()
        return True

    async def _get_then_set(self, buyer_id: str) -> bool:
        assert self._redis is not None
        found = await self._redis.get(self._key)
        left = self._units if found is None else int(found)
        if left < 1:
            return False
        await self._pay()
        await self._redis.set(self._key, left - 1)
        await self.book.record(buyer_id)
        return True

    async def _decrement(self, buyer_id: str) -> bool:
        assert self._redis is not None
        await self._redis.set(self._key, self._units, nx=True)
        if await self._redis.decr(self._key) < 0:
            return False
        await self._pay()
        await self.book.record(buyer_id)
        return True


class Shops:
    def __init__(self, directory: Path, units: int, cache_url: str | None, pay: Pay) -> None:
        """Without a cache, only the shops that do not need one exist."""
        self._redis = None if cache_url is None else _open(cache_url)
        self.all = [
            Shop(kind, OrderBook(directory / f"{kind.name}.db", units), self._redis, units, pay)
            for kind in kinds(has_redis=cache_url is not None)
        ]

    async def prepare(self) -> None:
        if self._redis is not None:
            await self._redis.flushall()

    async def close(self) -> None:
        for shop in self.all:
            await asyncio.to_thread(shop.book.close)
        if self._redis is not None:
            await self._redis.aclose()


def _open(url: str) -> Redis:
    pool = BlockingConnectionPool.from_url(
        url, max_connections=_CONNECTIONS, timeout=5, retry=Retry(NoBackoff(), 0), socket_timeout=REDIS_TIMEOUT_S
    )
    return Redis.from_pool(pool)
