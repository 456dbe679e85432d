"""`holdfast bench room`: joins per second of a line and looks at `now`, beside a bare handler; and an overload.

Every join is of another buyer with a token of their own, verified by the server, and is on disk when it is answered.
After each round the server is asked whether the line is as long as was counted.
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

from holdfast.bench import driver
from holdfast.bench.contenders import Holdfast, Place, Shot, bare_server, check_taken, holdfast_server
from holdfast.bench.crowd import closed_loop
from holdfast.bench.engines import postgres, postgres_version
from holdfast.bench.failure import BenchFailed
from holdfast.bench.http import OPEN_LOOP_RATE
from holdfast.bench.load import BUYER, Answers, Load
from holdfast.bench.machine import machine
from holdfast.bench.overload import OverloadBench
from holdfast.bench.progress import Progress
from holdfast.bench.report import Memory, Report
from holdfast.bench.rounds import Figure, Measured, Round, measure, rounds_in
from holdfast.domain.room import Join
from holdfast.ledger.database import Database, open_database
from holdfast.ledger.migrate import migrate
from holdfast.ledger.rooms import find_room
from holdfast.room.desk import Desk

WAITING = 256
FIGURES = 5
_WARM_UP_S = 0.3
COMPARED = {
    "bare_handler": ("now", "bare_handler"),
    "bare_rsgi": ("now", "bare_rsgi"),
    "overload_of_peak": ("overload", "purchases"),
}


class RoomBench:
    def __init__(self, server: Holdfast, secret: str, connections: int) -> None:
        self._server, self._secret, self._connections = server, secret, connections
        self._numbers = itertools.count(1)

    def joins(self) -> Shot:
        sale_id = self._new_sale()
        load = Load(self._server.port, "POST", f"/v1/sales/{sale_id}/queue", "", BUYER, buyer_secret=self._secret)
        return Shot(load, 200, lambda answers: self._check_joined(sale_id, answers))

    def now(self) -> Shot:
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

    def _check_joined(self, sale_id: str, answers: Answers) -> None:
        check_taken(sale_id, answers, self._server.joined(sale_id))

    def figure(self, name: str, about: str, shot: Callable[[], Shot]) -> Figure:
        def run(seconds: float) -> Round:
            self._shoot(name, shot(), min(seconds, _WARM_UP_S))
            return Round(self._shoot(name, shot(), seconds).per_second)

        return Figure(name, about, run)

    def open_loop(self, name: str, shot: Shot, seconds: float) -> Measured:
        answers = self._shoot(name, shot, seconds, OPEN_LOOP_RATE)
        about = f"open loop at {OPEN_LOOP_RATE:,} requests/s, latency from the scheduled time"
        return Measured(about, [round(answers.per_second, 1)], answers.latency)

    def _shoot(self, name: str, shot: Shot, seconds: float, rate: float | None = None) -> Answers:
        changes = {"connections": self._connections, "seconds": seconds, "rate_per_second": rate}
        answers = driver.drive(replace(shot.load, **changes))
        shot.verify(name, answers)
        return answers


def _looking(port: int, sale_id: str) -> Shot:
    return Shot(Load(port, "GET", f"/v1/sales/{sale_id}/now"), 200, lambda _: None)


class DeskBench:
    """Joins without HTTP: what the store allows."""

    def __init__(self, runner: asyncio.Runner, database: Database) -> None:
        self._runner, self._database = runner, database
        self._numbers = itertools.count(1)

    def run(self, seconds: float) -> Round:
        return self._runner.run(self._join(seconds))

    async def _join(self, seconds: float) -> Round:
        sale_id, desk = f"desk-{next(self._numbers)}", Desk(self._database)

        async def attempt(_client: int) -> bool:
            number = next(self._numbers)
            ask = Join(f"{number * 7919 % 1_000_003}-{number}", secrets.token_urlsafe(16))
            return (await desk.submit(sale_id, ask)).place is not None

        crowd = await closed_loop(WAITING, seconds, attempt)
        room = await self._database.read(lambda c: find_room(c, sale_id))
        if room is None or room.joined != crowd.granted:
            raise BenchFailed(f"{sale_id}: {crowd.granted} joined, but the line has another length")
        return crowd.as_round()


def bench_room(engine: str, seconds: float, connections: int) -> Report:
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(seconds * (FIGURES + 4 + 2 * rounds_in(seconds))).shown())
        with progress.step("starting the servers"):
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-bench-")))
            url = None if engine == "sqlite" else stack.enter_context(postgres())
            secret = secrets.token_hex(16)
            server = stack.enter_context(holdfast_server(Place(directory, url), HOLDFAST_BUYER_SECRET=secret))
            bare = {name: stack.enter_context(bare_server(directory, name)) for name in ("asgi", "rsgi")}
            desk = _desk(stack, url or f"sqlite:///{directory / 'desk.db'}")
        ours, storm = RoomBench(server, secret, connections), OverloadBench(server, secret, connections)
        figures = [
            ours.figure("joins", "joins over HTTP, each of another buyer", ours.joins),
            Figure("joins_desk", f"joins without HTTP, {WAITING} waiting", desk.run),
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
        # At the end, because a server that has seen a storm is careful for a while; and longer, because a storm's first
        # moments are unlike the rest of it.
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


def _desk(stack: ExitStack, url: str) -> DeskBench:
    runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
    database = open_database(url)
    runner.run(migrate(database))
    stack.callback(lambda: runner.run(database.close()))
    return DeskBench(runner, database)
