"""The tutorial's script without a web server around it: one call for each request."""

import asyncio
import itertools
from typing import Any
from uuid import uuid4

from holdfast.bench.baselines import CLIENTS, STOCK
from holdfast.bench.crowd import Crowd, closed_loop
from holdfast.bench.failure import BenchFailed
from holdfast.bench.lua_script import HOLD_SECONDS, RESERVE
from holdfast.bench.rounds import Figure, Round

_WARM_UP_S = 0.2


class LuaPerRequest:
    def __init__(self, runner: asyncio.Runner, redis: Any) -> None:
        self._runner, self._redis = runner, redis
        self._reserve = redis.register_script(RESERVE)
        self._numbers = itertools.count(1)

    def figure(self, name: str, about: str) -> Figure:
        def run(seconds: float) -> Round:
            self._runner.run(self._sell(min(seconds, _WARM_UP_S)))
            return self._runner.run(self._sell(seconds)).as_round()

        return Figure(name, about, run)

    async def _sell(self, seconds: float) -> Crowd:
        sku_id = f"lua-{next(self._numbers)}"
        stock = f"stock:{sku_id}"
        await self._redis.set(stock, STOCK)

        async def attempt(client: int) -> bool:
            keys = [stock, f"hold:{sku_id}:{uuid4().hex}"]
            return bool(await self._reserve(keys=keys, args=[1, f"owner-{client}", HOLD_SECONDS]))

        crowd = await closed_loop(CLIENTS, seconds, attempt)
        gone = STOCK - int(await self._redis.get(stock))
        if crowd.refused or gone != crowd.granted:
            raise BenchFailed(f"{sku_id}: {crowd.granted} granted, {crowd.refused} refused, but {gone} units are gone")
        return crowd
