"""The tutorial's script without a web server: one call per request."""

import asyncio
import itertools
from typing import Any
from uuid import uuid4

from holdfast.lab.bench.baselines.lua_script import HOLD_SECONDS, RESERVE
from holdfast.lab.bench.baselines.sql import CLIENTS, STOCK
from holdfast.lab.bench.measure.closed_loop import LoopResult, closed_loop, warmed_up
from holdfast.lab.bench.measure.rounds import Figure
from holdfast.lab.load.failure import BenchFailed


class LuaPerRequest:
    def __init__(self, runner: asyncio.Runner, redis: Any) -> None:
        self._runner, self._redis = runner, redis
        self._reserve = redis.register_script(RESERVE)
        self._numbers = itertools.count(1)

    def figure(self, name: str, about: str) -> Figure:
        return Figure(name, about, warmed_up(self._runner, self._sell))

    async def oversold(self, units: int) -> int:
        stock = f"stock:lua-{next(self._numbers)}"
        await self._redis.set(stock, units)
        keys = [[stock, f"hold:{uuid4().hex}"] for _ in range(2 * units)]
        granted = await asyncio.gather(*(self._reserve(keys=pair, args=[1, "owner", HOLD_SECONDS]) for pair in keys))
        return max(0, sum(map(int, granted)) - units)

    async def _sell(self, seconds: float) -> LoopResult:
        sku_id = f"lua-{next(self._numbers)}"
        stock = f"stock:{sku_id}"
        await self._redis.set(stock, STOCK)

        async def attempt(client: int) -> bool:
            keys = [stock, f"hold:{sku_id}:{uuid4().hex}"]
            return bool(await self._reserve(keys=keys, args=[1, f"owner-{client}", HOLD_SECONDS]))

        result = await closed_loop(CLIENTS, seconds, attempt)
        gone = STOCK - int(await self._redis.get(stock))
        if result.refused or gone != result.granted:
            raise BenchFailed(
                f"{sku_id}: {result.granted} granted, {result.refused} refused, but {gone} units are gone"
            )
        return result
