"""Reservations per second and latency, by the number of concurrent commands and of concurrently used pools."""

import asyncio
import itertools
from collections.abc import Sequence

from holdfast.domain.stock.command import Provision, Reserve
from holdfast.domain.stock.limits import MAX_TOTAL_UNITS
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.errors import Busy, Unavailable
from holdfast.gate.batcher import Batcher
from holdfast.gate.engine import Engine
from holdfast.lab.bench.growth.curves import Curve, Point
from holdfast.lab.bench.growth.sizes import sizes_to
from holdfast.lab.bench.measure.closed_loop import WARM_UP_S, LoopResult, closed_loop, spread_id
from holdfast.lab.bench.measure.progress import Progress
from holdfast.lab.load.failure import BenchFailed

WAITING = (1, 4, 16, 64, 256, 1_024, 4_096)
POOLS = (1, 10, 100, 1_000)
# Enough to keep even the largest number of pools in use.
ASKING = 1_024


class ConcurrencyBench:
    def __init__(self, engine: Engine, runner: asyncio.Runner) -> None:
        self._engine, self._runner = engine, runner
        self._numbers = itertools.count(1)

    def waiting(self, seconds: float, progress: Progress) -> Curve:
        [sku_id] = self._runner.run(self._provision(1))
        points = []
        for waiting in WAITING:
            with progress.step(f"{waiting:,} waiting", seconds):
                points.append(self._point(waiting, [sku_id], waiting, seconds))
        return Curve("waiting", "reservations of one pool, by how many wait at a time", "commands waiting", points)

    def pools(self, seconds: float, up_to: int, progress: Progress) -> Curve:
        counts = sizes_to(up_to, POOLS)
        with progress.step(f"making {counts[-1]:,} pools"):
            sku_ids = self._runner.run(self._provision(counts[-1]))
        points = []
        for count in counts:
            with progress.step(f"{count:,} pools", seconds):
                points.append(self._point(count, sku_ids[:count], ASKING, seconds))
        about = f"reservations, by how many pools are asked at once, {ASKING:,} waiting in all"
        return Curve("pools", about, "pools asked", points)

    async def _provision(self, count: int) -> list[str]:
        sku_ids = [f"breadth-{next(self._numbers)}" for _ in range(count)]
        for sku_id in sku_ids:
            await self._engine.gate.apply(sku_id, [Provision(MAX_TOTAL_UNITS)])
        return sku_ids

    def _point(self, at: int, sku_ids: Sequence[str], waiting: int, seconds: float) -> Point:
        self._runner.run(self._sell(sku_ids, waiting, min(seconds, WARM_UP_S)))
        return Point(at, values_of(self._runner.run(self._sell(sku_ids, waiting, seconds))))

    async def _sell(self, sku_ids: Sequence[str], waiting: int, seconds: float) -> LoopResult:
        batcher, held = Batcher(self._engine.gate), await self._held(sku_ids)

        async def attempt(client: int) -> bool:
            sku_id, number = sku_ids[client % len(sku_ids)], next(self._numbers)
            owner_id = spread_id(number)
            command = Reserve(new_reservation_id(sku_id, owner_id), owner_id, 1, 1)
            try:
                return (await batcher.submit(sku_id, command)).outcome.is_success
            except (Busy, Unavailable):
                return False

        result = await closed_loop(waiting, seconds, attempt)
        await batcher.drain()
        taken = await self._held(sku_ids) - held
        if taken != result.granted:
            raise BenchFailed(f"{result.granted} were granted, and {taken} units are held")
        return result

    async def _held(self, sku_ids: Sequence[str]) -> int:
        views = await self._engine.look_at(sku_ids)
        lost = [str(view) for view in views.values() if isinstance(view, Exception)]
        if lost:
            raise BenchFailed(lost[0])
        return sum(view.pool.held for view in views.values() if not isinstance(view, Exception))


def values_of(result: LoopResult) -> dict[str, float]:
    round_ = result.as_round()
    if round_.latency is None:
        raise BenchFailed("nobody was answered")
    latency, granted = round_.latency, result.granted / result.elapsed_s
    values = {"per_second": round(granted, 1), "p50_ms": latency.p50_ms, "p99_ms": latency.p99_ms}
    # Commands refused as busy.
    return values | ({"busy_per_second": round(result.refused / result.elapsed_s, 1)} if result.refused else {})
