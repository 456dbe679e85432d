"""`holdfast bench approaches`: every usual way to take a hot counter beside ours, in one run, and what each is worth.

The same number of clients for everyone, each asking again as soon as it was answered, and the rounds of all of them in
turns. What a figure is worth is no measurement: it follows from how each works.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import uvloop
from msgspec import Struct
from msgspec.structs import asdict, astuple

from holdfast.bench.baselines import CLIENTS, WAYS, Way, open_baselines
from holdfast.bench.distributed_lock import DistributedLock, open_client
from holdfast.bench.engines import postgres, postgres_version, valkey
from holdfast.bench.gate import GateBench, Selling, open_bench_database, taken_in
from holdfast.bench.lua_per_request import LuaPerRequest
from holdfast.bench.machine import machine
from holdfast.bench.progress import Progress
from holdfast.bench.redis import open_engines
from holdfast.bench.report import Report, Table
from holdfast.bench.rounds import Figure, measure
from holdfast.gate.sql import SqlGate
from holdfast.http.app import rest_collector


class Worth(Struct, frozen=True):
    """What a yes of this approach is worth. True of the approach, not measured."""

    durable: str
    retry: str
    expiry: str
    oversells: str


_SQL = Worth("yes", "no: a repeat takes a second unit", "no", "no")
WORTH = {
    "for_update": _SQL,
    "conditional_update": _SQL,
    "skip_locked": _SQL,
    "lock": Worth(
        "yes",
        "no: a repeat takes a second unit",
        "no",
        "yes, if its holder is halted for longer than it lasts, or Valkey forgets it",
    ),
    "lua": Worth(
        "no",
        "no: a repeat takes a second unit",
        "the hold goes, its unit does not come back",
        "yes, if Redis stops: it forgets what was sold",
    ),
    "lua_synced": Worth(
        "yes",
        "no: a repeat takes a second unit",
        "the hold goes, its unit does not come back",
        "not after a crash; yes, after a failover to a replica that was behind",
    ),
    "holdfast_sqlite": Worth("yes", "yes, by its key", "yes, within a second", "no"),
    "holdfast_postgres": Worth("yes", "yes, by its key", "yes, within a second", "no"),
    "holdfast_redis": Worth(
        "yes", "yes, by its key", "yes, within a second", "no: what Redis lost is noticed, and PostgreSQL judges"
    ),
}
WORTH_COLUMNS = ["approach", "on disk before the yes", "a retry is safe", "holds expire", "oversells"]
COMPARED = {
    **{name: ("holdfast_postgres", name) for name in ("for_update", "conditional_update", "skip_locked", "lock")},
    **{name: ("holdfast_redis", name) for name in ("lua", "lua_synced")},
}


class Approaches(Report, frozen=True):
    """With what each is worth."""

    def body(self) -> dict[str, Any]:
        return super().body() | {"worth": {name: asdict(worth) for name, worth in WORTH.items()}}

    def tables(self) -> list[Table]:
        rows: list[list[object]] = [[name, *astuple(worth)] for name, worth in WORTH.items()]
        return [*super().tables(), Table("what a yes is worth", WORTH_COLUMNS, rows)]


def bench_approaches(seconds: float) -> Approaches:
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(seconds * len(WORTH)).shown())
        with progress.step("starting PostgreSQL and Valkey"):
            server_url = stack.enter_context(postgres())
            synced_url, unsynced_url = (stack.enter_context(valkey(fsync)) for fsync in ("always", "no"))
        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        theirs = _theirs(stack, runner, server_url, synced_url, unsynced_url)
        ours = _ours(stack, runner, server_url, synced_url)
        rest_collector()
        measured = measure([*theirs, *ours], seconds, progress)
        facts = machine(
            ["sqlalchemy", "asyncpg", "redis"],
            engine="every",
            postgres=postgres_version(server_url),
            clients=CLIENTS,
            seconds=seconds,
        )
    return Approaches(f"approaches, {CLIENTS} clients each", measured, COMPARED, facts)


def _theirs(
    stack: ExitStack, runner: asyncio.Runner, server_url: str, synced_url: str, unsynced_url: str
) -> list[Figure]:
    baselines = stack.enter_context(open_baselines(runner, server_url))
    clients = [stack.enter_context(_client(runner, url)) for url in (synced_url, unsynced_url)]
    lock = Way("lock", DistributedLock(clients[1]).take, CLIENTS, "a lock in Valkey, then read, check and write")
    per_request = {way.take: way for way in WAYS if way.clients == CLIENTS}
    ways = [_named(way) for way in per_request.values()]
    return [
        *baselines.figures([*ways, lock]),
        LuaPerRequest(runner, clients[1]).figure("lua", "a Lua call per request, Valkey keeps nothing"),
        LuaPerRequest(runner, clients[0]).figure("lua_synced", "a Lua call per request, Valkey syncs every write"),
    ]


def _named(way: Way) -> Way:
    return Way(way.name.removesuffix(f"_{CLIENTS}"), way.take, way.clients, way.about)


def _ours(stack: ExitStack, runner: asyncio.Runner, server_url: str, synced_url: str) -> list[Figure]:
    [redis] = stack.enter_context(open_engines(runner, server_url, {synced_url: "always"}))
    sqlite, postgresql = (
        stack.enter_context(open_bench_database(runner, engine, server_url)) for engine in ("sqlite", "postgres")
    )
    benches = {
        "sqlite": GateBench(SqlGate(sqlite), taken_in(sqlite), runner),
        "postgres": GateBench(SqlGate(postgresql), taken_in(postgresql), runner),
        "redis": GateBench(redis.engine.gate, redis.taken(), runner),
    }
    return [
        figure
        for name, bench in benches.items()
        for figure in bench.figures([Selling(f"holdfast_{name}", CLIENTS, f"ours on {name}, {CLIENTS} waiting")])
    ]


@contextmanager
def _client(runner: asyncio.Runner, url: str) -> Iterator[Any]:
    client = open_client(url)
    try:
        yield client
    finally:
        runner.run(client.aclose())
