"""Stock in Redis, decremented once per request: by the tutorial's script, or by `DECR`."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from holdfast.lab.bench.baselines.lua_script import HOLD_SECONDS, RESERVE
from holdfast.lab.bench.baselines.sql import CLIENTS, STOCK
from holdfast.lab.bench.measure.closed_loop import LoopResult, closed_loop, warmed_up
from holdfast.lab.bench.measure.rounds import Figure
from holdfast.lab.load.failure import BenchFailed

# Takes the key of the stock, and returns whether a unit was taken.
Take = Callable[[str], Awaitable[bool]]


def by_script(redis: Any) -> Take:
    reserve = redis.register_script(RESERVE)

    async def take(stock: str) -> bool:
        return bool(await reserve(keys=[stock, f"hold:{uuid4().hex}"], args=[1, "owner", HOLD_SECONDS]))

    return take


def by_decrement(redis: Any) -> Take:
    """Two calls, not atomic: a client that dies between them after the last unit leaves the counter below zero."""

    async def take(stock: str) -> bool:
        if await redis.decr(stock) >= 0:
            return True
        await redis.incr(stock)
        return False

    return take


class RedisPerRequest:
    def __init__(self, runner: asyncio.Runner, redis: Any, take: Callable[[Any], Take]) -> None:
        self._runner, self._redis, self._take = runner, redis, take(redis)
        self._numbers = itertools.count(1)

    def figure(self, name: str, about: str) -> Figure:
        return Figure(name, about, warmed_up(self._runner, self._sell))

    async def oversold(self, units: int) -> int:
        stock = f"stock:{next(self._numbers)}"
        await self._redis.set(stock, units)
        granted = await asyncio.gather(*(self._take(stock) for _ in range(2 * units)))
        return max(0, sum(granted) - units)

    async def _sell(self, seconds: float) -> LoopResult:
        stock = f"stock:{next(self._numbers)}"
        await self._redis.set(stock, STOCK)
        result = await closed_loop(CLIENTS, seconds, lambda _client: self._take(stock))
        gone = STOCK - int(await self._redis.get(stock))
        if result.refused or gone != result.granted:
            raise BenchFailed(f"{stock}: {result.granted} granted, {result.refused} refused, but {gone} units are gone")
        return result
