"""A distributed lock around read, check and write: a key in Valkey, taken by whoever sets it first.

Written as its documentation asks for: with a time after which it lapses by itself, a token that nobody else has,
release by a script that deletes the key only while it is one's own, and pauses at random between attempts. It is still
no fence: who is halted for longer than the lock lasts goes on and writes, beside the next one.
"""

import asyncio
import secrets
from random import Random
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from holdfast.bench.baselines import CLIENTS, RESERVE, SKU

LASTS_MS = 10_000
# Short enough to find the lock free soon, and longer the longer one has waited.
LEAST_PAUSE_S, MOST_PAUSE_S = 0.001, 0.032
_LOCK = f"lock:{SKU}"
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
_READ = "SELECT available FROM baseline.stock WHERE sku_id = $1"
_WRITE = "UPDATE baseline.stock SET available = $2 WHERE sku_id = $1"


class DistributedLock:
    def __init__(self, redis: Any) -> None:
        self._redis = redis
        self._release = redis.register_script(_RELEASE)
        self._chance = Random(1)

    async def take(self, connection: Any, reservation_id: str, owner_id: str) -> bool:
        token = secrets.token_hex(16)
        await self._acquire(token)
        try:
            return await _read_check_write(connection, reservation_id, owner_id)
        finally:
            await self._release(keys=[_LOCK], args=[token])

    async def _acquire(self, token: str) -> None:
        longest = LEAST_PAUSE_S
        while not await self._redis.set(_LOCK, token, nx=True, px=LASTS_MS):
            await asyncio.sleep(self._chance.uniform(LEAST_PAUSE_S, longest))
            longest = min(2 * longest, MOST_PAUSE_S)


async def _read_check_write(connection: Any, reservation_id: str, owner_id: str) -> bool:
    async with connection.transaction():
        available = await connection.fetchval(_READ, SKU)
        if available < 1:
            return False
        await connection.execute(_WRITE, SKU, available - 1)
        await connection.execute(RESERVE, reservation_id, SKU, owner_id)
    return True


def open_client(url: str) -> Any:
    """As many connections as clients. What got no answer is not sent again by itself: it may have been done."""
    retry = Retry(NoBackoff(), 0)
    pool = BlockingConnectionPool.from_url(url, max_connections=CLIENTS, timeout=30, retry=retry)
    return Redis(connection_pool=pool)
