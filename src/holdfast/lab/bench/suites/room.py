"""`holdfast bench room`: joins per second and polls of `now`, compared with a bare handler; and an overload.

Every join is by another buyer with a token that the server verifies, and is on disk before it is answered. After each
round the queue length is compared with the counts.
"""

import asyncio
import itertools
import secrets
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import uvloop
from msgspec.structs import replace

from holdfast.domain.room.room import Join
from holdfast.lab.bench.baselines.servers import bare_server
from holdfast.lab.bench.measure.closed_loop import closed_loop, spread_id
from holdfast.lab.bench.measure.progress import Progress
from holdfast.lab.bench.measure.report import Memory, Report
from holdfast.lab.bench.measure.rounds import Figure, Measured, Round, measure, rounds_in
from holdfast.lab.bench.suites.http import OPEN_LOOP_RATE
from holdfast.lab.bench.suites.overload import OverloadBench
from holdfast.lab.load import driver
from holdfast.lab.load.engines import postgres, postgres_version
from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.load.machine import machine
from holdfast.lab.load.servers import CheckedLoad, Holdfast, Place, check_taken, holdfast_server
from holdfast.lab.load.spec import BUYER, Load, LoadResult
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.migrate import migrate
from holdfast.ledger.room.rooms import find_room
from holdfast.room.join_queue import JoinQueue

WAITING = 256
FIGURES = 5
_WARM_UP_S = 0.3
COMPARED = {
    "bare_handler": ("now", "bare_handler"),
    "bare_rsgi": ("now", "bare_rsgi"),
    "overload_of_peak": ("overload", "purchases"),
}


class RoomBench:
    def __init__(self, server: Holdfast, connections: int) -> None:
        self._server, self._connections = server, connections
        self._numbers = itertools.count(1)

    def joins(self) -> CheckedLoad:
        sale_id = self._new_sale()
        path, secret = f"/v1/sales/{sale_id}/queue", self._server.buyer_secret
        load = Load(self._server.port, "POST", path, "", BUYER, buyer_secret=secret)
        return CheckedLoad(load, 200, lambda result: self._check_joined(sale_id, result))

    def now(self) -> CheckedLoad:
        return _looking(self._server.port, self._new_sale())

    def _new_sale(self) -> str:
        name = f"bench-{next(self._numbers)}"
        self._server.create_sale(
            {
                "sale_id": name,
                "sku_id": name,
                "name": "Bench",
                "total_units": 1_000,
                "price": {"amount": 100, "currency": "EUR"},
                "starts_at": "2100-01-01T00:00:00Z",
                "payment": "external",
                "room": {"mode": "fifo"},
            }
        )
        return name

    def _check_joined(self, sale_id: str, result: LoadResult) -> None:
        check_taken(sale_id, result, self._server.joined(sale_id))

    def figure(self, name: str, about: str, checked: Callable[[], CheckedLoad]) -> Figure:
        def run(seconds: float) -> Round:
            self._drive_checked(name, checked(), min(seconds, _WARM_UP_S))
            return Round(self._drive_checked(name, checked(), seconds).per_second)

        return Figure(name, about, run)

    def open_loop(self, name: str, checked: CheckedLoad, seconds: float) -> Measured:
        result = self._drive_checked(name, checked, seconds, OPEN_LOOP_RATE)
        about = f"open loop at {OPEN_LOOP_RATE:,} requests/s, latency from the scheduled time"
        return Measured(about, [round(result.per_second, 1)], result.latency)

    def _drive_checked(self, name: str, checked: CheckedLoad, seconds: float, rate: float | None = None) -> LoadResult:
        changes = {"connections": self._connections, "seconds": seconds, "rate_per_second": rate}
        result = driver.drive(replace(checked.load, **changes))
        checked.verify(name, result)
        return result


def _looking(port: int, sale_id: str) -> CheckedLoad:
    return CheckedLoad(Load(port, "GET", f"/v1/sales/{sale_id}/now"), 200, lambda _: None)


class JoinQueueBench:
    """Joins without HTTP, which shows the limit of the store."""

    def __init__(self, runner: asyncio.Runner, database: Database) -> None:
        self._runner, self._database = runner, database
        self._numbers = itertools.count(1)

    def run(self, seconds: float) -> Round:
        return self._runner.run(self._join(seconds))

    async def _join(self, seconds: float) -> Round:
        sale_id, join_queue = f"join_queue-{next(self._numbers)}", JoinQueue(self._database)

        async def attempt(_client: int) -> bool:
            number = next(self._numbers)
            ask = Join(spread_id(number), secrets.token_urlsafe(16))
            return (await join_queue.submit(sale_id, ask)).place is not None

        result = await closed_loop(WAITING, seconds, attempt)
        room = await self._database.read(lambda c: find_room(c, sale_id))
        if room is None or room.joined != result.granted:
            raise BenchFailed(f"{sale_id}: {result.granted} joined, but the queue length differs")
        return result.as_round()


def bench_room(engine: str, seconds: float, connections: int) -> Report:
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(seconds * (FIGURES + 4 + 2 * rounds_in(seconds))).shown())
        with progress.step("starting the servers"):
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-bench-")))
            url = None if engine == "sqlite" else stack.enter_context(postgres())
            server = stack.enter_context(holdfast_server(Place(directory, url)))
            bare = {name: stack.enter_context(bare_server(directory, name)) for name in ("asgi", "rsgi")}
            join_queue = _join_queue(stack, url or f"sqlite:///{directory / 'join_queue.db'}")
        ours, storm = RoomBench(server, connections), OverloadBench(server, connections)
        figures = [
            ours.figure("joins", "joins over HTTP, each of another buyer", ours.joins),
            Figure("joins_desk", f"joins without HTTP, {WAITING} waiting", join_queue.run),
            ours.figure("now", "looks at `now`", ours.now),
            ours.figure("bare_handler", "a constant from an ASGI handler", partial(_looking, bare["asgi"], "bench")),
            ours.figure("bare_rsgi", "a constant from an RSGI handler", partial(_looking, bare["rsgi"], "bench")),
        ]
        measured = measure(figures, seconds, progress)
        with progress.step("latency", seconds * 2):
            open_loop = {
                "join": ours.open_loop("join", ours.joins(), seconds),
                "now": ours.open_loop("now", ours.now(), seconds),
            }
        open_loop |= measure(storm.sold_out(bare["rsgi"]), seconds, progress)
        refused = open_loop["sold_out"]
        open_loop["sold_out"] = replace(refused, about=f"{refused.about}, {storm.shed:,} of them shed")
        before = server.process.memory_mb()
        # Last, because a server throttles for a while after a storm. Longer, because the start of a storm differs from
        # the rest of it.
        measured |= measure(storm.figures(), seconds * rounds_in(seconds), progress)
        memory = Memory(before, server.process.memory_mb(), storm.asked)
        facts = machine(
            ["granian", "uvloop", "sqlalchemy"],
            engine=engine,
            postgres=None if url is None else postgres_version(url),
            connections=connections,
            seconds=seconds,
        )
    return Report(f"the room on {engine}", measured, COMPARED, facts, open_loop, memory)


def _join_queue(stack: ExitStack, url: str) -> JoinQueueBench:
    runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
    database = open_database(url)
    runner.run(migrate(database))
    stack.callback(lambda: runner.run(database.close()))
    return JoinQueueBench(runner, database)
