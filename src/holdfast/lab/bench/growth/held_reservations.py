"""The cost of decisions, look-ups, expiry and checks as the number of held reservations grows.

One pool is filled in steps through the ledger's gate, in large batches, so that every row is what the gate writes.
Decisions are measured with buyers who reserve and cancel, so that the number of holds stays constant. In Redis mode the
pool is rebuilt from the ledger at every step, which is also measured; decisions since then are drained before the next
step, outside the measured time.
"""

import asyncio
import itertools
from collections.abc import Callable
from random import Random
from statistics import median

from holdfast.domain.stock.command import Expire, Move, Provision, Reserve, Transition
from holdfast.domain.stock.limits import MAX_HOLD_MS, MAX_TOTAL_UNITS
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.gate.batcher import Batcher
from holdfast.gate.engine import Engine
from holdfast.gate.expirer import Expirer
from holdfast.gate.redis.client import RedisClient
from holdfast.gate.redis.drainer import Drainer
from holdfast.gate.redis.rebuilder import Rebuilder
from holdfast.gate.sql import SqlGate
from holdfast.lab.bench.growth.concurrency import values_of
from holdfast.lab.bench.growth.curves import Curve, Point
from holdfast.lab.bench.growth.sizes import sizes_to
from holdfast.lab.bench.growth.timing import middle_ms, took_ms
from holdfast.lab.bench.measure.closed_loop import WARM_UP_S, LoopResult, closed_loop, spread_id
from holdfast.lab.bench.measure.progress import Progress
from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.load.processes import memory_mb
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.batch import Position
from holdfast.ledger.stock.journal import position

WAITING = 256
# Reservations per transaction while the pool is filled.
PORTION = 5_000
# Enough samples that a batch rarely repeats one, spread over all portions.
KNOWN, KNOWN_OF_EACH = 1_000, 50
FILLED_PER_SECOND = 30_000
LOOKS = 200
EXPIRIES, EXPIRED_AT_ONCE = 5, 500
_SKU = "held"


class HeldReservationsBench:
    def __init__(
        self, engine: Engine, database: Database, runner: asyncio.Runner, valkey_mb: Callable[[], float] | None = None
    ) -> None:
        """`valkey_mb` returns the memory of Valkey, if there is one."""
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
        # These expire immediately.
        await self._fill(EXPIRIES * EXPIRED_AT_ONCE, 1)
        self._held = size
        client, drainer = self._engine.link, self._engine.drainer
        if not isinstance(client, RedisClient) or not isinstance(drainer, Drainer):
            return {}
        rebuilder = Rebuilder(self._database, client, drainer)
        return {"rebuild_ms": await took_ms(lambda: rebuilder.rebuild(_SKU, at, "bench"))}

    async def _drained(self) -> Position:
        at = await self._database.read(lambda c: position(c, _SKU))
        if at is None or not isinstance(self._engine.drainer, Drainer):
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
        owner_id = spread_id(number)
        return Reserve(new_reservation_id(_SKU, owner_id), owner_id, 1, 1, ttl_ms)

    async def _measured(self, seconds: float) -> dict[str, float]:
        gate = self._engine.gate
        expire = [await took_ms(lambda: gate.apply(_SKU, [Expire(EXPIRED_AT_ONCE)])) for _ in range(EXPIRIES)]
        await self._decided(min(seconds, WARM_UP_S))
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

    async def _decided(self, seconds: float) -> LoopResult:
        batcher, taken = Batcher(self._engine.gate), [""] * WAITING

        async def attempt(client: int) -> bool:
            mine, command = taken[client], self._reserve(MAX_HOLD_MS)
            taken[client] = "" if mine else command.reservation_id
            asked = Move(Transition.CANCEL, mine) if mine else command
            return (await batcher.submit(_SKU, asked)).outcome.is_success

        result = await closed_loop(WAITING, seconds, attempt)
        # Cancel the last ones as well.
        await asyncio.gather(*[batcher.submit(_SKU, Move(Transition.CANCEL, mine)) for mine in taken if mine])
        await batcher.drain()
        if result.refused:
            raise BenchFailed(f"{result.refused} decisions were refused while {self._held:,} reservations were held")
        return result

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
