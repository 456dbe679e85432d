"""`holdfast bench gate`: durable reservations per second through the batcher and the SQL gate.

A fixed number of commands is in flight at any time. In the same run, on a real PostgreSQL, the usual ways to take from
a hot counter are measured. After every round the database is compared with the counts.
"""

import asyncio
import itertools
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import uvloop
from msgspec import Struct
from sqlalchemy import Connection, func, select

from holdfast.domain.stock.command import Provision, Reserve
from holdfast.domain.stock.limits import MAX_TOTAL_UNITS
from holdfast.domain.stock.pool import Rules
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.gate.batcher import Batcher
from holdfast.gate.port import Gate
from holdfast.gate.sql import SqlGate
from holdfast.lab.bench.baselines.sql import open_baselines
from holdfast.lab.bench.measure.closed_loop import LoopResult, closed_loop, spread_id, warmed_up
from holdfast.lab.bench.measure.progress import Progress
from holdfast.lab.bench.measure.report import Report
from holdfast.lab.bench.measure.rounds import Figure, measure
from holdfast.lab.load.engines import postgres, postgres_version
from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.load.machine import machine
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.migrate import migrate
from holdfast.ledger.tables.stock import pools, reservations
from holdfast.runtime.garbage import tune_gc

WAITING = 256


class Variant(Struct, frozen=True):
    """One way of selling a pool."""

    name: str
    waiting: int
    about: str
    keyed: bool = False
    limit: int | None = None
    units: int = MAX_TOTAL_UNITS
    batched: bool = True


def usual_variants() -> list[Variant]:
    counts = {"holdfast_1": 1, "holdfast_16": 16, "holdfast_64": 64, "holdfast": WAITING, "holdfast_1024": 1024}
    ours = [Variant(name, waiting, f"reservations, {waiting} waiting") for name, waiting in counts.items()]
    return [
        *ours,
        Variant("holdfast_keyed", WAITING, "the same at 256, each with an idempotency key", keyed=True),
        Variant("holdfast_limited", WAITING, "the same at 256, from a pool with a limit per owner", limit=10),
        Variant("sold_out", WAITING, "refusals by the engine, 256 waiting", units=0),
        Variant("sold_out_keyed", WAITING, "the same, each with an idempotency key", keyed=True, units=0),
    ]


Taken = Callable[[str], Awaitable[tuple[int, int]]]


class GateBench:
    """Every round sells its own pool, so that its counts are independent. `taken` returns a pool's held units and its
    number of reservations."""

    def __init__(self, gate: Gate, taken: Taken, runner: asyncio.Runner) -> None:
        self._gate = gate
        self._taken = taken
        self._runner = runner
        self._numbers = itertools.count(1)

    def figures(self, variants: Sequence[Variant]) -> list[Figure]:
        return [
            Figure(variant.name, variant.about, warmed_up(self._runner, partial(self._sell, variant)))
            for variant in variants
        ]

    async def oversold(self, units: int) -> int:
        """Twice as many buyers as units request one at once. Returns the number of units sold beyond the stock."""
        sku_id = f"race-{next(self._numbers)}"
        await self._gate.apply(sku_id, [Provision(units, Rules())])
        batcher = Batcher(self._gate)
        owners = [f"owner-{number}" for number in range(2 * units)]
        asked = (Reserve(new_reservation_id(sku_id, owner), owner, 1, 1) for owner in owners)
        await asyncio.gather(*(batcher.submit(sku_id, command) for command in asked))
        held, _ = await self._taken(sku_id)
        return max(0, held - units)

    async def _sell(self, variant: Variant, seconds: float) -> LoopResult:
        sku_id = f"{variant.name}-{next(self._numbers)}"
        await self._gate.apply(sku_id, [Provision(variant.units, Rules(per_owner_limit=variant.limit))])
        batcher = Batcher(self._gate)

        async def attempt(_client: int) -> bool:
            number = next(self._numbers)
            key = f"key-{number}" if variant.keyed else None
            owner_id = spread_id(number)
            command = Reserve(new_reservation_id(sku_id, owner_id), owner_id, 1, 1, key=key)
            if variant.batched:
                return (await batcher.submit(sku_id, command)).outcome.is_success
            return (await self._gate.apply(sku_id, [command]))[0].outcome.is_success

        result = await closed_loop(variant.waiting, seconds, attempt)
        await batcher.drain()
        await self._check(sku_id, result, variant.units)
        return result

    async def _check(self, sku_id: str, result: LoopResult, units: int) -> None:
        held, rows = await self._taken(sku_id)
        if not held == rows == result.granted:
            raise BenchFailed(f"{sku_id}: {result.granted} were granted, {held} are held in {rows} reservations")
        if (result.refused if units else result.granted) > 0:
            raise BenchFailed(f"{sku_id}: of {units} units {result.granted} were granted and {result.refused} refused")


def count_taken(database: Database) -> Taken:
    async def taken(sku_id: str) -> tuple[int, int]:
        return await database.read(lambda connection: _taken(connection, sku_id))

    return taken


def _taken(connection: Connection, sku_id: str) -> tuple[int, int]:
    held = select(pools.c.held).where(pools.c.sku_id == sku_id)
    rows = select(func.count()).select_from(reservations).where(reservations.c.sku_id == sku_id)
    return connection.execute(held).scalar_one(), connection.execute(rows).scalar_one()


def bench_gate(engine: str, seconds: float) -> Report:
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(seconds * 12).shown())
        with progress.step("starting PostgreSQL"):
            server_url = stack.enter_context(postgres())
        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        baselines = stack.enter_context(open_baselines(runner, server_url))
        database = stack.enter_context(open_bench_database(runner, engine, server_url))
        tune_gc()
        ours = GateBench(SqlGate(database), count_taken(database), runner)
        figures = ours.figures(usual_variants()) + baselines.figures()
        measured = measure(figures, seconds, progress)
        facts = machine(
            ["sqlalchemy", "asyncpg"], engine=engine, postgres=postgres_version(server_url), seconds=seconds
        )
    measured["skip_locked"] = max(
        (measured[name] for name in ("skip_locked_16", "skip_locked_64")), key=lambda each: each.per_second
    )
    names = ("conditional_update", "for_update", "skip_locked", "skip_locked_16", "skip_locked_64")
    return Report(f"gate on {engine}", measured, {name: ("holdfast", name) for name in names}, facts)


@contextmanager
def open_bench_database(runner: asyncio.Runner, engine: str, server_url: str) -> Iterator[Database]:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
        database = open_database(f"sqlite:///{Path(directory) / 'holdfast.db'}" if engine == "sqlite" else server_url)
        try:
            runner.run(migrate(database))
            runner.run(_check_durable(database))
            yield database
        finally:
            runner.run(database.close())


async def _check_durable(database: Database) -> None:
    """Figures count only data that is on disk before the response."""
    if database.dialect_name != "sqlite":
        return  # For PostgreSQL, the baselines check the server's settings.
    level = await database.write(lambda connection: connection.exec_driver_sql("PRAGMA synchronous").scalar())
    if level != 2:
        raise BenchFailed(f"SQLite runs with synchronous={level}, and only 2 (FULL) waits for the disk")
