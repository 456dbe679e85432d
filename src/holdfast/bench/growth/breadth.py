"""Reservations per second and how long each waited, by how many wait at a time, and by how many pools are asked."""

import asyncio
import itertools
from collections.abc import Sequence

from holdfast.bench.crowd import Crowd, closed_loop
from holdfast.bench.failure import BenchFailed
from holdfast.bench.growth.curves import Curve, Point
from holdfast.bench.growth.sizes import sizes_to
from holdfast.bench.progress import Progress
from holdfast.domain.command import Provision, Reserve
from holdfast.domain.pool import MAX_TOTAL_UNITS
from holdfast.domain.reservation import new_reservation_id
from holdfast.engines import Engine
from holdfast.errors import Busy, Unavailable
from holdfast.gate.batcher import Batcher

WAITING = (1, 4, 16, 64, 256, 1_024, 4_096)
POOLS = (1, 10, 100, 1_000)
# As many as it takes that each of the most pools is asked by somebody at any time.
ASKING = 1_024
_WARM_UP_S = 0.2


class BreadthBench:
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
        self._runner.run(self._sell(sku_ids, waiting, min(seconds, _WARM_UP_S)))
        return Point(at, values_of(self._runner.run(self._sell(sku_ids, waiting, seconds))))

    async def _sell(self, sku_ids: Sequence[str], waiting: int, seconds: float) -> Crowd:
        batcher, held = Batcher(self._engine.gate), await self._held(sku_ids)

        async def attempt(client: int) -> bool:
            sku_id, number = sku_ids[client % len(sku_ids)], next(self._numbers)
            owner_id = f"{number * 7919 % 1_000_003}-{number}"
            command = Reserve(new_reservation_id(sku_id, owner_id), owner_id, 1, 1)
            try:
                return (await batcher.submit(sku_id, command)).outcome.is_success
            except (Busy, Unavailable):
                return False

        crowd = await closed_loop(waiting, seconds, attempt)
        await batcher.drain()
        taken = await self._held(sku_ids) - held
        if taken != crowd.granted:
            raise BenchFailed(f"{crowd.granted} were granted, and {taken} units are held")
        return crowd

    async def _held(self, sku_ids: Sequence[str]) -> int:
        views = await self._engine.look_at(sku_ids)
        lost = [str(view) for view in views.values() if isinstance(view, Exception)]
        if lost:
            raise BenchFailed(lost[0])
        return sum(view.pool.held for view in views.values() if not isinstance(view, Exception))


def values_of(crowd: Crowd) -> dict[str, float]:
    """As a point has them."""
    told = crowd.as_round()
    if told.latency is None:
        raise BenchFailed("nobody was answered")
    latency, granted = told.latency, crowd.granted / crowd.elapsed_s
    values = {"per_second": round(granted, 1), "p50_ms": latency.p50_ms, "p99_ms": latency.p99_ms}
    # Told to come again, because too many were there.
    return values | ({"busy_per_second": round(crowd.refused / crowd.elapsed_s, 1)} if crowd.refused else {})
