"""`holdfast bench approaches`: every usual way to take from a hot counter, in one run, and what each guarantees.

All have the same number of clients, each sending its next request as soon as the previous one was answered, and their
rounds are interleaved. Overselling is tested: with many buyers for few units, and a client that is paused at the worst
moment (`baselines/oversell.py`). The other guarantees are not measured; they follow from how each approach works.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import asyncpg
import uvloop
from msgspec import Struct
from msgspec.structs import asdict, astuple

from holdfast.gate.sql import SqlGate
from holdfast.lab.bench.baselines.contended import advisory_lock, optimistic_version, serializable
from holdfast.lab.bench.baselines.distributed_lock import DistributedLock, open_client
from holdfast.lab.bench.baselines.oversell import UNITS, oversold
from holdfast.lab.bench.baselines.queue_consumer import QueueConsumer
from holdfast.lab.bench.baselines.redis_per_request import RedisPerRequest, by_decrement, by_script
from holdfast.lab.bench.baselines.sql import BASELINES, CLIENTS, Baseline, Take, open_baselines, skip_locked
from holdfast.lab.bench.measure.progress import Progress
from holdfast.lab.bench.measure.report import Report, Table
from holdfast.lab.bench.measure.rounds import Figure, measure
from holdfast.lab.bench.suites.gate import GateBench, Variant, count_taken, open_bench_database
from holdfast.lab.bench.suites.redis_gate import open_engines
from holdfast.lab.load.engines import postgres, postgres_version, valkey
from holdfast.lab.load.machine import machine
from holdfast.runtime.garbage import tune_gc


class Worth(Struct, frozen=True):
    """The guarantees of a grant with this approach. Not measured."""

    durable: str
    retry: str
    expiry: str
    oversells: str
    cost: str


_TWICE = "no: a repeat takes a second unit"


def _sql(cost: str, oversells: str = "no") -> Worth:
    return Worth("yes", _TWICE, "no", oversells, cost)


_BY_KEY, _IN_TIME = "yes, by its key", "yes, within a second"
_SHARE = "a share of one transaction for the batch"
WORTH = {
    "for_update": _sql("a transaction of 3 statements; everybody waits for the row"),
    "conditional_update": _sql("a transaction of 2 statements; everybody waits for the row"),
    "skip_locked": _sql("a transaction of 2 statements, and a row per unit"),
    "advisory_lock": _sql("a transaction of 4 statements; everybody waits for the lock"),
    "serializable": _sql("a transaction of 3 statements, again after each conflict"),
    "optimistic_version": _sql("a read and a transaction of 2 statements, again after each conflict"),
    "queue_consumer": _sql(
        "a transaction of 3 statements and 4 calls of Valkey, one after the other",
        "not with one consumer; yes, if a second one takes over while the first still works",
    ),
    "lock": _sql(
        "2 calls of Valkey and a transaction of 3 statements, one after the other",
        "yes, if its holder is halted for longer than it lasts, or Valkey forgets it",
    ),
    "redlock": _sql(
        "10 calls of five Valkeys and a transaction of 3 statements, one after the other",
        "yes, if its holder is halted for longer than it lasts",
    ),
    "lua": Worth(
        "no",
        _TWICE,
        "the hold goes, its unit does not come back",
        "yes, if Redis stops: it forgets what was sold",
        "a call of Valkey",
    ),
    "lua_synced": Worth(
        "yes",
        _TWICE,
        "the hold goes, its unit does not come back",
        "not after a crash; yes, after a failover to a replica that was behind",
        "a call of Valkey, and a share of a sync",
    ),
    "decr": Worth(
        "yes",
        _TWICE,
        "no",
        "not after a crash; yes, after a failover to a replica that was behind",
        "a call of Valkey, and a share of a sync; nobody knows who has the unit",
    ),
    "holdfast_sqlite": Worth("yes", _BY_KEY, _IN_TIME, "no", _SHARE),
    "holdfast_postgres": Worth("yes", _BY_KEY, _IN_TIME, "no", _SHARE),
    "holdfast_redis": Worth(
        "yes",
        _BY_KEY,
        _IN_TIME,
        "no: what Redis lost is noticed, and PostgreSQL judges",
        "a share of one call for the batch, and of copying it to PostgreSQL",
    ),
}
WORTH_COLUMNS = [
    "approach",
    "on disk before the yes",
    "a retry is safe",
    "holds expire",
    "oversells",
    "cost of a grant",
]
FOUND_COLUMNS = ["approach", f"sold beyond {UNITS} units", "tries per grant"]
REDLOCK_NODES = 5
# Short, so that a paused client's lock expires soon.
LOCK_IN_TEST_MS = 200
COMPARED = {
    name: ("holdfast_redis" if name in ("lua", "lua_synced", "decr") else "holdfast_postgres", name)
    for name in WORTH
    if not name.startswith("holdfast")
}


class Approaches(Report, frozen=True, kw_only=True):
    """A report with the guarantees of each approach."""

    oversold: dict[str, int]
    tries: dict[str, float]

    def body(self) -> dict[str, Any]:
        worth = {name: asdict(worth) for name, worth in WORTH.items()}
        return super().body() | {"worth": worth, "oversold": self.oversold, "tries": self.tries}

    def tables(self) -> list[Table]:
        rows: list[list[object]] = [[name, *astuple(worth)] for name, worth in WORTH.items()]
        found: list[list[object]] = [[name, count, self.tries.get(name)] for name, count in self.oversold.items()]
        guarantees = Table("what a yes is worth", WORTH_COLUMNS, rows)
        return [*super().tables(), Table("what was found", FOUND_COLUMNS, found), guarantees]


class Approach(Struct, frozen=True):
    figures: list[Figure]
    oversold: Callable[[], Coroutine[Any, Any, int]]


def bench_approaches(seconds: float) -> Approaches:
    # The load of everything else on this machine: our measurement has not started.
    load = round(os.getloadavg()[0], 1)
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(seconds * len(WORTH)).shown())
        with progress.step("starting PostgreSQL and Valkey"):
            server_url = stack.enter_context(postgres())
            synced_url, unsynced_url = (stack.enter_context(valkey(fsync)) for fsync in ("always", "no"))
            node_urls = [stack.enter_context(valkey()) for _ in range(REDLOCK_NODES)]
        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        theirs = _Theirs(stack, runner, server_url)
        approaches = {
            **theirs.on_postgres(),
            **theirs.with_valkey(unsynced_url, node_urls),
            **theirs.on_valkey(unsynced_url, synced_url),
            **_ours(stack, runner, server_url, synced_url),
        }
        tune_gc()
        measured = measure([figure for each in approaches.values() for figure in each.figures], seconds, progress)
        tries = theirs.tries_per_grant()
        found = {}
        for name, each in approaches.items():
            with progress.step(f"trying to oversell with {name}"):
                found[name] = runner.run(each.oversold())
        facts = machine(
            ["sqlalchemy", "asyncpg", "redis"],
            engine="every",
            postgres=postgres_version(server_url),
            clients=CLIENTS,
            seconds=seconds,
            load=load,
        )
    return Approaches(f"approaches, {CLIENTS} clients each", measured, COMPARED, facts, oversold=found, tries=tries)


class _Theirs:
    def __init__(self, stack: ExitStack, runner: asyncio.Runner, server_url: str) -> None:
        self._stack, self._runner, self._server_url = stack, runner, server_url
        self._baselines = stack.enter_context(open_baselines(runner, server_url))
        self._tries: Counter[str] = Counter()
        self._granted: Counter[str] = Counter()

    def on_postgres(self) -> dict[str, Approach]:
        per_request = {baseline.take: baseline for baseline in BASELINES if baseline.clients == CLIENTS}
        usual = {_short(baseline.name): baseline for baseline in per_request.values()}
        return {name: self._approach(name, each.take, each.about) for name, each in usual.items()} | {
            name: self._approach(name, take, about)
            for name, take, about in (
                ("advisory_lock", advisory_lock, "pg_advisory_xact_lock, then read, check and write"),
                ("serializable", serializable(self._tries), "read, check and write, SERIALIZABLE, retried"),
                (
                    "optimistic_version",
                    optimistic_version(self._tries),
                    "UPDATE … WHERE version = what was read, retried",
                ),
            )
        }

    def with_valkey(self, url: str, node_urls: list[str]) -> dict[str, Approach]:
        clients, consumer = (self._stack.enter_context(_client(self._runner, url)) for _ in range(2))
        nodes = [self._stack.enter_context(_client(self._runner, node)) for node in node_urls]
        about = "read, check and write"
        return {
            "lock": self._locked("lock", [clients], f"a lock in Valkey, then {about}"),
            "redlock": self._locked("redlock", nodes, f"a lock in {len(nodes)} Valkeys, then {about}"),
            "queue_consumer": self._queued(clients, consumer),
        }

    def _locked(self, name: str, nodes: list[Any], about: str) -> Approach:
        shortly = DistributedLock(nodes, LOCK_IN_TEST_MS).take
        return self._approach(
            name, DistributedLock(nodes).take, about, partial(oversold, self._baselines, shortly, lock_expires=True)
        )

    def _queued(self, clients: Any, consumer: Any) -> Approach:
        connection = self._runner.run(asyncpg.connect(self._server_url))
        queue = QueueConsumer(clients, consumer, connection)
        self._stack.callback(lambda: self._runner.run(connection.close()))
        self._stack.callback(lambda: self._runner.run(queue.close()))
        return self._approach("queue_consumer", queue.take, "a queue in Valkey, one consumer, one request at a time")

    def on_valkey(self, unsynced_url: str, synced_url: str) -> dict[str, Approach]:
        unsynced, synced = (self._stack.enter_context(_client(self._runner, url)) for url in (unsynced_url, synced_url))
        each = {
            "lua": (unsynced, by_script, "a Lua call per request, Valkey keeps nothing"),
            "lua_synced": (synced, by_script, "a Lua call per request, Valkey syncs every write"),
            "decr": (synced, by_decrement, "DECR, and INCR if it was too many, Valkey syncs every write"),
        }
        found = {}
        for name, (client, take, about) in each.items():
            stock = RedisPerRequest(self._runner, client, take)
            found[name] = Approach([stock.figure(name, about)], partial(stock.oversold, UNITS))
        return found

    def _approach(
        self, name: str, take: Take, about: str, test: Callable[[], Coroutine[Any, Any, int]] | None = None
    ) -> Approach:
        async def counted(connection: Any, reservation_id: str, owner_id: str) -> bool:
            is_granted = await take(connection, reservation_id, owner_id)
            self._granted[name] += is_granted
            return is_granted

        # Only one approach, recognised by its function, needs a row per unit.
        measured = take if take is skip_locked else counted
        figures = self._baselines.figures([Baseline(name, measured, CLIENTS, about)])
        return Approach(figures, test or partial(oversold, self._baselines, take))

    def tries_per_grant(self) -> dict[str, float]:
        return {name: round(count / max(1, self._granted[name]), 1) for name, count in self._tries.items()}


def _short(name: str) -> str:
    return name.removesuffix(f"_{CLIENTS}")


def _ours(stack: ExitStack, runner: asyncio.Runner, server_url: str, synced_url: str) -> dict[str, Approach]:
    [redis] = stack.enter_context(open_engines(runner, server_url, {synced_url: "always"}))
    sqlite, postgresql = (
        stack.enter_context(open_bench_database(runner, engine, server_url)) for engine in ("sqlite", "postgres")
    )
    benches = {
        "sqlite": GateBench(SqlGate(sqlite), count_taken(sqlite), runner),
        "postgres": GateBench(SqlGate(postgresql), count_taken(postgresql), runner),
        "redis": GateBench(redis.engine.gate, redis.taken(), runner),
    }
    return {
        f"holdfast_{name}": Approach(
            bench.figures([Variant(f"holdfast_{name}", CLIENTS, f"ours on {name}, {CLIENTS} waiting")]),
            partial(bench.oversold, UNITS),
        )
        for name, bench in benches.items()
    }


@contextmanager
def _client(runner: asyncio.Runner, url: str) -> Iterator[Any]:
    client = open_client(url)
    try:
        yield client
    finally:
        runner.run(client.aclose())
