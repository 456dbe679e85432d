"""A distributed lock around read, check and write: a key that only one client can set.

Implemented as the documentation recommends: with an expiry, a unique token, release by a script that deletes the key
only if the token matches, and random pauses between attempts. Over several independent nodes it is Redlock: a majority
must grant the lock before it expires. It is still not a fence: a client paused for longer than the expiry continues and
writes alongside the next one.
"""

import asyncio
import secrets
from collections.abc import Sequence
from time import monotonic
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from holdfast.lab.bench.baselines.contended import FOR_LOCK_S, pauses, read_check_write
from holdfast.lab.bench.baselines.sql import CLIENTS, SKU

LASTS_MS = 10_000
# Redlock's allowance for clock drift between nodes.
DRIFT = 0.01
_LOCK = f"lock:{SKU}"
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class DistributedLock:
    def __init__(self, nodes: Sequence[Any], lasts_ms: int = LASTS_MS) -> None:
        self._nodes, self._lasts_ms = nodes, lasts_ms
        self._releases = [node.register_script(_RELEASE) for node in nodes]

    async def take(self, connection: Any, reservation_id: str, owner_id: str) -> bool:
        token = secrets.token_hex(16)
        await self._acquire(token)
        try:
            async with connection.transaction():
                return await read_check_write(connection, reservation_id, owner_id)
        finally:
            await self._release(token)

    async def _acquire(self, token: str) -> None:
        for pause_s in pauses(FOR_LOCK_S):
            asked = monotonic()
            granted = await asyncio.gather(
                *(node.set(_LOCK, token, nx=True, px=self._lasts_ms) for node in self._nodes)
            )
            took_ms = 1000 * (monotonic() - asked)
            if 2 * sum(map(bool, granted)) > len(granted) and took_ms < self._lasts_ms * (1 - DRIFT):
                return
            if any(granted):
                await self._release(token)
            await asyncio.sleep(pause_s)

    async def _release(self, token: str) -> None:
        await asyncio.gather(*(release(keys=[_LOCK], args=[token]) for release in self._releases))


def open_client(url: str) -> Any:
    """One connection per client. Calls are not retried, because an unanswered one may have been executed. They have no
    timeout, because a queue may stay empty for long."""
    retry = Retry(NoBackoff(), 0)
    pool = BlockingConnectionPool.from_url(url, max_connections=CLIENTS, timeout=30, retry=retry, socket_timeout=None)
    return Redis(connection_pool=pool)
