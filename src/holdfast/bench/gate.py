"""`holdfast bench gate`: durable reservations per second through the batcher and the SQL gate.

So many commands wait at any time, each for its verdict; beside them, on a real PostgreSQL in the same run, the ways a
hot counter is usually taken. After every round the database is asked whether it holds what was counted.
"""

import asyncio
import itertools
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvloop
from msgspec import Struct
from sqlalchemy import Connection, func, select

from holdfast.bench.baselines import open_baselines
from holdfast.bench.crowd import Crowd, closed_loop
from holdfast.bench.engines import postgres, postgres_version
from holdfast.bench.failure import BenchFailed
from holdfast.bench.machine import machine
from holdfast.bench.progress import Progress
from holdfast.bench.report import Report
from holdfast.bench.rounds import Figure, Round, measure
from holdfast.domain.command import Provision, Reserve
from holdfast.domain.pool import MAX_TOTAL_UNITS, Rules
from holdfast.domain.reservation import new_reservation_id
from holdfast.gate.batcher import Batcher
from holdfast.gate.port import Gate
from holdfast.gate.sql import SqlGate
from holdfast.http.app import rest_collector
from holdfast.ledger.database import Database, open_database
from holdfast.ledger.migrate import migrate
from holdfast.ledger.tables import pools, reservations

WAITING = 256
_WARM_UP_S = 0.2


class Selling(Struct, frozen=True):
    """One way to sell a pool, to be measured."""

    name: str
    waiting: int
    about: str
    keyed: bool = False
    limit: int | None = None
    units: int = MAX_TOTAL_UNITS
    batched: bool = True


def usual_sellings() -> list[Selling]:
    counts = {"holdfast_1": 1, "holdfast_16": 16, "holdfast_64": 64, "holdfast": WAITING, "holdfast_1024": 1024}
    ours = [Selling(name, waiting, f"reservations, {waiting} waiting") for name, waiting in counts.items()]
    return [
        *ours,
        Selling("holdfast_keyed", WAITING, "the same at 256, each with an idempotency key", keyed=True),
        Selling("holdfast_limited", WAITING, "the same at 256, from a pool with a limit per owner", limit=10),
        Selling("sold_out", WAITING, "refusals by the engine, 256 waiting", units=0),
        Selling("sold_out_keyed", WAITING, "the same, each with an idempotency key", keyed=True, units=0),
    ]


Taken = Callable[[str], Awaitable[tuple[int, int]]]


class GateBench:
    """Our own figures. Every round sells a pool of its own, so that its count stands alone in the engine's books.

    `taken` tells of a pool how many units are held, and in how many reservations.
    """

    def __init__(self, gate: Gate, taken: Taken, runner: asyncio.Runner) -> None:
        self._gate = gate
        self._taken = taken
        self._runner = runner
        self._numbers = itertools.count(1)

    def figures(self, sellings: Sequence[Selling]) -> list[Figure]:
        return [Figure(selling.name, selling.about, self._run(selling)) for selling in sellings]

    def _run(self, selling: Selling) -> Callable[[float], Round]:
        def run(seconds: float) -> Round:
            self._runner.run(self._sell(selling, min(seconds, _WARM_UP_S)))
            return self._runner.run(self._sell(selling, seconds)).as_round()

        return run

    async def _sell(self, selling: Selling, seconds: float) -> Crowd:
        sku_id = f"{selling.name}-{next(self._numbers)}"
        await self._gate.apply(sku_id, [Provision(selling.units, Rules(per_owner_limit=selling.limit))])
        batcher = Batcher(self._gate)

        async def attempt(_client: int) -> bool:
            number = next(self._numbers)
            key = f"key-{number}" if selling.keyed else None
            # Nobody comes twice: every attempt brings another owner to the index of owners.
            owner_id = f"{number * 7919 % 1_000_003}-{number}"
            command = Reserve(new_reservation_id(sku_id, owner_id), owner_id, 1, 1, key=key)
            if selling.batched:
                return (await batcher.submit(sku_id, command)).outcome.is_success
            return (await self._gate.apply(sku_id, [command]))[0].outcome.is_success

        crowd = await closed_loop(selling.waiting, seconds, attempt)
        await batcher.drain()
        await self._check(sku_id, crowd, selling.units)
        return crowd

    async def _check(self, sku_id: str, crowd: Crowd, units: int) -> None:
        held, rows = await self._taken(sku_id)
        if not held == rows == crowd.granted:
            raise BenchFailed(f"{sku_id}: {crowd.granted} were granted, {held} are held in {rows} reservations")
        if (crowd.refused if units else crowd.granted) > 0:
            raise BenchFailed(f"{sku_id}: of {units} units {crowd.granted} were granted and {crowd.refused} refused")


def taken_in(database: Database) -> Taken:
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
        rest_collector()
        ours = GateBench(SqlGate(database), taken_in(database), runner)
        figures = ours.figures(usual_sellings()) + baselines.figures()
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
    """A figure from an engine that answers before its disk has would be another figure."""
    if database.dialect_name != "sqlite":
        return  # The baselines have looked at the server already.
    level = await database.write(lambda connection: connection.exec_driver_sql("PRAGMA synchronous").scalar())
    if level != 2:
        raise BenchFailed(f"SQLite runs with synchronous={level}, and only 2 (FULL) waits for the disk")
