"""The Redis client: commands and function calls, with health checks, library loading and one safe retry.

Health. While Redis does not respond, calls are refused immediately (`runtime/store_health.py`). That covers a single
server and a service behind sentinels. A cluster has no health check of its own: each of its servers fails
independently, and one that is down must not stop calls to the others.

Library. A function that is not found means the library is missing (an empty restart, a promoted replica, FUNCTION
FLUSH). Nothing was executed, so the library is loaded and the call is sent again.

Retry. Only a batch is retried, because it carries an ID: the second call either finds the first reply or is decided
now. If the retry fails too, the outcome is unknown.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import structlog

from holdfast.errors import EngineError, OutcomeUnknown, Unavailable
from holdfast.gate.redis.encoding import BatchCall, decode
from holdfast.gate.redis.library import ensure_loaded, source
from holdfast.gate.redis.link.port import Command, RedisLink
from holdfast.gate.redis.link.redis_link import ClusterLink, open_link
from holdfast.gate.redis.link.replies import RedisRefused
from holdfast.runtime.breaker import Breaker
from holdfast.runtime.store_health import StoreHealth

log = structlog.get_logger()

# How long a batch waits for its replicas, if any are required.
REPLICAS_TIMEOUT_MS = 1_000

BEAT = "holdfast:beat"


class RedisClient:
    def __init__(self, link: RedisLink, *, library: str | None = None, health: StoreHealth | None = None) -> None:
        """`library` is the text of the function library; tests pass one with their own clock."""
        self._link = link
        self._library = library or source()
        self._health = health

    @property
    def breaker(self) -> Breaker | None:
        return None if self._health is None else self._health.breaker

    async def call(self, key: str, *commands: Command) -> list[Any]:
        """Send all in one write to the server that owns `key`; returns their replies in order."""
        async with self._checked():
            return await self._link.call(key, *commands)

    async def call_everywhere(self, *commands: Command) -> list[list[Any]]:
        """The same on every primary; returns the replies of each."""
        async with self._checked():
            return await self._link.call_everywhere(*commands)

    async def call_function(
        self, name: str, keys: Sequence[str], arguments: Sequence[str | bytes | int], *, replicas_min: int = 0
    ) -> Any:
        """The function's reply. With `replicas_min`, that many replicas have what it wrote."""
        commands: list[Command] = [["FCALL", name, len(keys), *keys, *arguments]]
        if replicas_min:
            commands.append(["WAIT", replicas_min, REPLICAS_TIMEOUT_MS])
        reply, *reached = await self._call_loaded(keys[0], commands)
        if reached and reached[0] < replicas_min:
            raise OutcomeUnknown(f"only {reached[0]} of {replicas_min} replicas have it")
        return reply

    async def beat(self, *, replicas_min: int = 0) -> list[BaseException | None]:
        """One write on every primary, which costs and proves as much as a batch. Returns for each how it failed, or
        None."""
        keys = await self.key_per_primary()
        calls = [self.call_function("holdfast_beat_v2", [key], [], replicas_min=replicas_min) for key in keys]
        results = await asyncio.gather(*calls, return_exceptions=True)
        return [result if isinstance(result, BaseException) else None for result in results]

    async def key_per_primary(self) -> list[str]:
        """Keys of which each primary owns one."""
        return await self._link.key_per_primary(BEAT) if isinstance(self._link, ClusterLink) else [BEAT]

    async def decide(self, batch: BatchCall, *, replicas_min: int = 0) -> Any:
        """The decoded reply to a batch, which is retried once if its reply was lost."""
        try:
            return await self._decide_once(batch, replicas_min)
        except OutcomeUnknown as exc:
            log.warning("redis_call_retried", key=batch.keys[0], error=str(exc))
        try:
            reply = await self._decide_once(batch, replicas_min)
        except EngineError as exc:
            raise OutcomeUnknown(f"the retry got no answer either: {exc}") from exc
        # Any other reply proves nothing: this server may have lost the first call, or may never have received it.
        if reply[0] != "decided":
            raise OutcomeUnknown(f"the retry was refused: {reply[0]}")
        return reply

    async def load_library(self) -> None:
        await ensure_loaded(self, self._library)

    async def close(self) -> None:
        if self._health is not None:
            await self._health.close()
        # A loop that is shutting down cancels this task, and the link still has connections to close.
        await asyncio.shield(self._link.close())

    async def _decide_once(self, batch: BatchCall, replicas_min: int) -> Any:
        return decode(await self.call_function(batch.function, batch.keys, batch.arguments, replicas_min=replicas_min))

    async def _call_loaded(self, key: str, commands: Sequence[Command]) -> list[Any]:
        try:
            return await self.call(key, *commands)
        except RedisRefused as exc:
            if "unction not found" not in exc.message:
                # The function failed while running. It checks before it writes, but a defect may be anywhere.
                raise OutcomeUnknown(str(exc)) from exc
        await self.load_library()
        try:
            return await self.call(key, *commands)
        except RedisRefused as exc:
            raise Unavailable(f"the function library does not stay loaded: {exc}") from exc

    @asynccontextmanager
    async def _checked(self) -> AsyncIterator[None]:
        health = self._health
        if health is None:
            yield
            return
        try:
            async with health.call(None):
                yield
        except RedisRefused:
            raise
        except TimeoutError as exc:
            health.failed()
            raise OutcomeUnknown("Redis does not answer; the command may have been executed") from exc
        except EngineError:
            if health.breaker.is_closed:
                health.failed()
            raise


def open_client(url: str, *, timeout_s: float) -> RedisClient:
    """Connects when it is first used."""
    link = open_link(url, timeout_s=timeout_s)
    if isinstance(link, ClusterLink):
        return RedisClient(link)
    return RedisClient(link, health=StoreHealth("redis", lambda: link.call_everywhere(["PING"])))
