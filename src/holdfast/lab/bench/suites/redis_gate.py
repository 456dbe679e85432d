"""`holdfast bench gate --engine redis`: batches into Valkey, compared with one call per command.

Two servers: one that syncs every write, as Holdfast requires, and one without persistence, as in tutorials. The same
function decides on both; the difference is the number of commands per call. `call_per_command` uses the same client as
our batches. `unbatched` bypasses it like redis-benchmark does: calls are encoded in advance and written to raw sockets,
and responses are only counted.

Nothing is drained into the ledger during a measurement: that is the job of another process.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from time import perf_counter
from typing import Any

import hiredis
import uvloop
from msgspec import Struct
from uuid_utils import uuid7

from holdfast.bootstrap.stores import open_engine
from holdfast.domain.stock.command import Provision, Reserve
from holdfast.domain.stock.limits import MAX_TOTAL_UNITS
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.gate.engine import Engine
from holdfast.gate.redis.encoding import CallId, Keys, batch_call
from holdfast.lab.bench.measure.progress import Progress
from holdfast.lab.bench.measure.report import Report
from holdfast.lab.bench.measure.rounds import Figure, Round, measure
from holdfast.lab.bench.suites.gate import WAITING, GateBench, Taken, Variant, usual_variants
from holdfast.lab.load.engines import postgres, postgres_version, valkey
from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.load.machine import machine
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.migrate import migrate
from holdfast.ledger.stock.batch import Position
from holdfast.runtime.garbage import tune_gc
from holdfast.settings import Settings, load_settings

CLIENTS = 64
# More calls than one connection handles in a second; encoded before each round, outside the measured time.
CALLS_PER_CONNECTION = 1_500

COMPARED = {
    "call_per_command": ("holdfast", "call_per_command"),
    "unbatched": ("holdfast", "unbatched"),
    "call_per_command_no_fsync": ("holdfast_no_fsync", "call_per_command_no_fsync"),
    "unbatched_no_fsync": ("holdfast_no_fsync", "unbatched_no_fsync"),
}


def _synced_variants() -> list[Variant]:
    alone = f"the same function, one command per call, {CLIENTS} clients"
    return [*usual_variants(), Variant("call_per_command", CLIENTS, alone, batched=False)]


def _unsynced_variants() -> list[Variant]:
    return [
        Variant("holdfast_no_fsync", WAITING, "reservations, 256 waiting, on a server that keeps nothing"),
        Variant("call_per_command_no_fsync", CLIENTS, "one command per call, on that server", batched=False),
    ]


class Running(Struct, frozen=True):
    """One Valkey and an engine connected to it."""

    url: str
    engine: Engine

    def taken(self) -> Taken:
        async def taken(sku_id: str) -> tuple[int, int]:
            [view] = (await self.engine.look_at([sku_id])).values()
            if isinstance(view, Exception):
                raise BenchFailed(str(view))
            return view.pool.held, view.pool.active_reservations

        return taken


class Packed(Struct, frozen=True):
    """Calls encoded in advance."""

    name: str
    about: str
    clients: int = CLIENTS
    commands: int = 1
    units: int = MAX_TOTAL_UNITS
    calls_per_second: int = CALLS_PER_CONNECTION


# The rate at which Redis itself can refuse, without a client process as the bottleneck.
_SOLD_OUT_REDIS = Packed(
    "sold_out_redis",
    "refusals, two bare sockets with 256 in each call",
    clients=2,
    commands=256,
    units=0,
    calls_per_second=500,
)


class BareSockets:
    """Sockets with exactly one call in flight each."""

    def __init__(self, running: Running, runner: asyncio.Runner, packed: Packed) -> None:
        self._running = running
        self._runner = runner
        self._packed = packed
        self._pools = 0

    def figure(self) -> Figure:
        packed = self._packed
        return Figure(packed.name, packed.about, lambda seconds: self._runner.run(self._round(seconds)))

    async def _round(self, seconds: float) -> Round:
        self._pools += 1
        packed = self._packed
        sku_id = f"{packed.name}-{self._pools}"
        await self._running.engine.gate.apply(sku_id, [Provision(packed.units)])
        per_client = int(packed.calls_per_second * seconds)
        calls = [[_pack(sku_id, packed.commands) for _ in range(per_client)] for _ in range(packed.clients)]
        started = perf_counter()
        counts = await asyncio.gather(*[self._talk(mine, started + seconds) for mine in calls])
        elapsed = perf_counter() - started
        asked = sum(counts) * packed.commands
        held, _ = await self._running.taken()(sku_id)
        if held != min(asked, packed.units):
            raise BenchFailed(f"{sku_id}: {asked} were asked for, {held} are held")
        return Round(asked / elapsed)

    async def _talk(self, calls: Sequence[bytes], until: float) -> int:
        host, port = self._running.url.removeprefix("redis://").split("/")[0].split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        replies = hiredis.Reader()
        done = 0
        for call in calls:
            writer.write(call)
            await _reply(reader, replies)
            done += 1
            if perf_counter() > until:
                break
        writer.close()
        return done


async def _reply(reader: asyncio.StreamReader, replies: hiredis.Reader) -> None:
    while True:
        reply: Any = replies.gets()
        if isinstance(reply, Exception):
            raise BenchFailed(str(reply))
        if reply is not False:
            return
        replies.feed(await reader.read(65536))


def _pack(sku_id: str, commands: int) -> bytes:
    batch = [Reserve(new_reservation_id(sku_id, "owner"), "owner", 1, 1) for _ in range(commands)]
    call = batch_call(Keys(sku_id), Position(1, 0), batch, CallId(uuid7().hex, 1))
    words: tuple[Any, ...] = ("FCALL", call.function, len(call.keys), *call.keys, *call.arguments)
    packed: bytes = hiredis.pack_command(words)
    return packed


def bench_redis_gate(seconds: float) -> Report:
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(seconds * 15).shown())
        with progress.step("starting PostgreSQL and Valkey"):
            server_url = stack.enter_context(postgres())
            urls = [stack.enter_context(valkey(fsync)) for fsync in ("always", "no")]
        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        servers = dict(zip(urls, ("always", "no"), strict=True))
        synced, unsynced = stack.enter_context(open_engines(runner, server_url, servers))
        tune_gc()
        figures = [
            *GateBench(synced.engine.gate, synced.taken(), runner).figures(_synced_variants()),
            BareSockets(synced, runner, _SOLD_OUT_REDIS).figure(),
            BareSockets(synced, runner, Packed("unbatched", f"the same from {CLIENTS} bare sockets")).figure(),
            *GateBench(unsynced.engine.gate, unsynced.taken(), runner).figures(_unsynced_variants()),
            BareSockets(unsynced, runner, Packed("unbatched_no_fsync", "from bare sockets, on that server")).figure(),
        ]
        measured = measure(figures, seconds, progress)
        facts = machine(["redis", "hiredis"], engine="redis", postgres=postgres_version(server_url), seconds=seconds)
    return Report("gate on redis, synced at every write unless said otherwise", measured, COMPARED, facts)


@contextmanager
def open_engines(runner: asyncio.Runner, server_url: str, servers: Mapping[str, str]) -> Iterator[list[Running]]:
    """`servers` maps each Valkey's URL to its fsync policy."""
    stack = AsyncExitStack()

    async def opened() -> list[Running]:
        database = open_database(server_url)
        stack.push_async_callback(database.close)
        await migrate(database)
        settings = [_settings(server_url, url, fsync) for url, fsync in servers.items()]
        return [Running(one.redis_url, await stack.enter_async_context(open_engine(one, database))) for one in settings]

    try:
        yield runner.run(opened())
    finally:
        runner.run(stack.aclose())


def _settings(database_url: str, redis_url: str, fsync: str) -> Settings:
    return load_settings(database_url=database_url, redis_url=redis_url, redis_fsync=fsync)
