"""What it costs to decide, look up, expire and check while more and more reservations are held.

One pool is filled step by step through the gate of the ledger, in large batches, so that every row is what the gate
writes. Decisions are measured by buyers who take a unit and give it back, so that as many stay held as were. Where
Redis decides, the pool is rebuilt from the ledger at every step, which is a figure of its own; what was decided
meanwhile is drained before the next step, outside the measured time.
"""

import asyncio
import itertools
from collections.abc import Callable
from random import Random
from statistics import median

from holdfast.bench.crowd import Crowd, closed_loop
from holdfast.bench.failure import BenchFailed
from holdfast.bench.growth.breadth import values_of
from holdfast.bench.growth.curves import Curve, Point
from holdfast.bench.growth.sizes import sizes_to
from holdfast.bench.growth.timing import middle_ms, took_ms
from holdfast.bench.processes import memory_mb
from holdfast.bench.progress import Progress
from holdfast.domain.command import Expire, Move, Provision, Reserve, Transition
from holdfast.domain.pool import MAX_TOTAL_UNITS
from holdfast.domain.reservation import MAX_HOLD_MS, new_reservation_id
from holdfast.engines import Engine
from holdfast.gate.batcher import Batcher
from holdfast.gate.functions import Functions
from holdfast.gate.sql import SqlGate
from holdfast.ledger.batch import Position
from holdfast.ledger.database import Database
from holdfast.ledger.journal import position
from holdfast.settlement.expire import BATCH_LIMIT, Expirer
from holdfast.settlement.rebuild import Rebuilder

WAITING = 256
# How many reservations the ledger takes in one transaction while the pool is filled, and about how fast.
PORTION = 5_000
# So many are looked up at random that hardly two in a batch are the same; and some of each portion, to be everywhere.
KNOWN, KNOWN_OF_EACH = 1_000, 50
FILLED_PER_SECOND = 30_000
LOOKS = 200
EXPIRIES = 5
_SKU = "held"
_WARM_UP_S = 0.2


class HeldBench:
    def __init__(
        self, engine: Engine, database: Database, runner: asyncio.Runner, valkey_mb: Callable[[], float] | None = None
    ) -> None:
        """`valkey_mb` tells the memory of the server that decides, if there is one."""
        self._engine, self._database, self._runner, self._valkey_mb = engine, database, runner, valkey_mb
        self._ledger_gate = SqlGate(database)
        self._expirer = Expirer(database, engine.gate)
        self._numbers = itertools.count(1)
        self._chance = Random(1)
        self._known: list[str] = []
        self._held = 0

    def curve(self, seconds: float, up_to: int, progress: Progress) -> Curve:
        points = []
        self._runner.run(self._engine.gate.apply(_SKU, [Provision(MAX_TOTAL_UNITS)]))
        for size in sizes_to(up_to):
            with progress.step(f"filling to {size:,} reservations", (size - self._held) / FILLED_PER_SECOND):
                values = self._runner.run(self._grow(size))
            with progress.step(f"{size:,} reservations held", 2 * seconds):
                values |= self._runner.run(self._measured(seconds))
            points.append(Point(size, values))
        about = f"decisions by reservations held: buyers who take a unit and give it back, {WAITING} waiting"
        return Curve("held", about, "reservations held", points)

    async def _grow(self, size: int) -> dict[str, float]:
        at = await self._drained()
        await self._fill(size - self._held, MAX_HOLD_MS)
        # These are due at once.
        await self._fill(EXPIRIES * BATCH_LIMIT, 1)
        self._held = size
        if self._engine.link is None or self._engine.drainer is None:
            return {}
        rebuilder = Rebuilder(self._database, Functions(self._engine.link), self._engine.drainer)
        return {"rebuild_ms": await took_ms(lambda: rebuilder.rebuild(_SKU, at, "bench"))}

    async def _drained(self) -> Position:
        at = await self._database.read(lambda c: position(c, _SKU))
        if at is None or self._engine.drainer is None:
            return Position()
        await self._engine.drainer.drain_all(_SKU, at)
        return await self._database.read(lambda c: position(c, _SKU)) or at

    async def _fill(self, count: int, ttl_ms: int) -> None:
        for first in range(0, count, PORTION):
            asked = [self._reserve(ttl_ms) for _ in range(min(PORTION, count - first))]
            verdicts = await self._ledger_gate.apply(_SKU, asked)
            if not all(verdict.outcome.is_success for verdict in verdicts):
                raise BenchFailed(f"the pool could not be filled: {verdicts[-1].outcome}")
            if ttl_ms == MAX_HOLD_MS:
                self._known += [
                    command.reservation_id for command in asked[: max(KNOWN_OF_EACH, KNOWN - len(self._known))]
                ]

    def _reserve(self, ttl_ms: int) -> Reserve:
        number = next(self._numbers)
        owner_id = f"{number * 7919 % 1_000_003}-{number}"
        return Reserve(new_reservation_id(_SKU, owner_id), owner_id, 1, 1, ttl_ms)

    async def _measured(self, seconds: float) -> dict[str, float]:
        gate = self._engine.gate
        expire = [await took_ms(lambda: gate.apply(_SKU, [Expire(BATCH_LIMIT)])) for _ in range(EXPIRIES)]
        await self._decided(min(seconds, _WARM_UP_S))
        values = values_of(await self._decided(seconds))
        values |= {
            "expire_ms": median(expire),
            "idle_ms": await middle_ms(LOOKS // 10, self._expirer.pass_once),
            "find_ms": await middle_ms(LOOKS, self._find),
            "view_ms": await middle_ms(LOOKS, lambda: self._engine.look_at([_SKU])),
            "check_ms": await took_ms(self._check),
            "process_mb": memory_mb(),
        }
        if self._valkey_mb is not None:
            values["valkey_mb"] = self._valkey_mb()
        return {name: round(value, 3) for name, value in values.items()}

    async def _decided(self, seconds: float) -> Crowd:
        batcher, taken = Batcher(self._engine.gate), [""] * WAITING

        async def attempt(client: int) -> bool:
            mine, command = taken[client], self._reserve(MAX_HOLD_MS)
            taken[client] = "" if mine else command.reservation_id
            asked = Move(Transition.CANCEL, mine) if mine else command
            return (await batcher.submit(_SKU, asked)).outcome.is_success

        crowd = await closed_loop(WAITING, seconds, attempt)
        # What was taken last is given back, too.
        await asyncio.gather(*[batcher.submit(_SKU, Move(Transition.CANCEL, mine)) for mine in taken if mine])
        await batcher.drain()
        if crowd.refused:
            raise BenchFailed(f"{crowd.refused} decisions were refused while {self._held:,} reservations were held")
        return crowd

    async def _find(self) -> None:
        wanted = self._chance.choice(self._known)
        if await self._engine.find(wanted) is None:
            raise BenchFailed(f"{wanted} is held, and was not found")

    async def _check(self) -> None:
        report = await self._engine.reconciler.examine(_SKU)
        if report is None or report.finding is not None:
            raise BenchFailed(f"the pool does not add up: {report and report.finding}")
        if report.pool.held != self._held:
            raise BenchFailed(f"{self._held:,} reservations should be held, and {report.pool.held:,} are")
