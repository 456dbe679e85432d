"""`holdfast bench growth`: throughput and latency by concurrency, pools, held reservations and queue length."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path

import uvloop
from msgspec import Struct

from holdfast.bootstrap.stores import open_engine, open_ledger
from holdfast.gate.engine import Engine
from holdfast.lab.bench.growth.concurrency import POOLS, WAITING, ConcurrencyBench
from holdfast.lab.bench.growth.curves import Growth
from holdfast.lab.bench.growth.held_reservations import FILLED_PER_SECOND, HeldReservationsBench
from holdfast.lab.bench.growth.queue_length import FILLED_PER_SECOND as JOINED_PER_SECOND
from holdfast.lab.bench.growth.queue_length import QueueBench
from holdfast.lab.bench.growth.sizes import sizes_to
from holdfast.lab.bench.measure.progress import Progress
from holdfast.lab.load.engines import postgres, postgres_version, valkey
from holdfast.lab.load.machine import machine
from holdfast.ledger.engine.database import Database
from holdfast.runtime.garbage import tune_gc
from holdfast.runtime.log import set_up_logging
from holdfast.settings import Settings, load_settings

_MIB = 1024 * 1024


class Place(Struct, frozen=True):
    settings: Settings
    postgres_version: str | None = None
    valkey_mb: Callable[[], float] | None = None


def planned_s(engine: str, seconds: float, up_to: int) -> float:
    sizes, has_line = len(sizes_to(up_to)), engine != "redis"
    measured = seconds * (len(WAITING) + len(POOLS) + 2 * sizes * (2 if has_line else 1))
    return measured + up_to / FILLED_PER_SECOND + (up_to / JOINED_PER_SECOND if has_line else 0)


def bench_growth(engine: str, seconds: float, up_to: int) -> Growth:
    # A rebuild logs a warning, but here it is intended.
    set_up_logging("error")
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(planned_s(engine, seconds, up_to)).shown())
        with progress.step("starting the engine"):
            place = stack.enter_context(_place(engine))
        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        database, opened = stack.enter_context(_opened(runner, place.settings))
        tune_gc()
        breadth = ConcurrencyBench(opened, runner)
        curves = [breadth.waiting(seconds, progress), breadth.pools(seconds, up_to, progress)]
        curves.append(HeldReservationsBench(opened, database, runner, place.valkey_mb).curve(seconds, up_to, progress))
        if engine != "redis":
            curves.append(QueueBench(database, runner).curve(seconds, up_to, progress))
        facts = machine(
            ["sqlalchemy", "asyncpg", "redis"],
            engine=engine,
            postgres=place.postgres_version,
            seconds=seconds,
            up_to=up_to,
        )
    return Growth(f"growth on {engine}", curves, facts)


@contextmanager
def _place(engine: str) -> Iterator[Place]:
    with ExitStack() as stack:
        if engine == "sqlite":
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-bench-"))
            yield Place(load_settings(database_url=f"sqlite:///{Path(directory) / 'holdfast.db'}"))
            return
        database_url = stack.enter_context(postgres())
        version = postgres_version(database_url)
        if engine == "postgres":
            yield Place(load_settings(database_url=database_url), version)
            return
        redis_url = stack.enter_context(valkey(fsync="always"))
        settings = load_settings(database_url=database_url, redis_url=redis_url, redis_fsync="always")
        yield Place(settings, version, lambda: _used_mb(redis_url))


def _used_mb(redis_url: str) -> float:
    from redis import Redis  # noqa: PLC0415 - an optional extra

    with Redis.from_url(redis_url) as client:
        facts: dict[str, int] = client.info("memory")
        return round(facts["used_memory"] / _MIB, 1)


@contextmanager
def _opened(runner: asyncio.Runner, settings: Settings) -> Iterator[tuple[Database, Engine]]:
    stack = AsyncExitStack()

    async def opened() -> tuple[Database, Engine]:
        database = await stack.enter_async_context(open_ledger(settings))
        return database, await stack.enter_async_context(open_engine(settings, database))

    try:
        yield runner.run(opened())
    finally:
        runner.run(stack.aclose())
