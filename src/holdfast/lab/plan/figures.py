"""The measured throughput of one core: the only hardware figures that a plan uses.

The defaults are the output of `holdfast bench all --json`, kept beside this file (`measured.json`). Users can pass such
a file from their own machine, or that of a single bench; each replaces the figures it contains, for its engine. Figures
that no bench measures are constants here, and marked as such.
"""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import SettingsError

ENGINES = ("sqlite", "postgres", "redis")


class Figure(Struct, frozen=True):
    """Operations per second of one process, core, or row that cannot be split."""

    per_second: float
    about: str
    source: str

    @property
    def seconds_each(self) -> float:
        return 1 / self.per_second


class Figures(Struct, frozen=True, kw_only=True):
    purchase: Figure
    refusal: Figure
    join: Figure
    look: Figure
    edge: Figure
    """Cached responses by one core of the edge."""
    line: Figure
    """Joins of one queue, which is one row of the ledger. The number of processes does not matter."""
    gate: Figure
    """Purchases decided by one engine or one Redis shard."""
    wallet: Figure
    confirm: Figure
    watch: Figure
    """Polls of a reservation during payment."""
    receipt: Figure
    """Reads of a buyer's own orders."""
    card: Figure
    drain: Figure
    ledger: Figure
    """Journal entries written by one core of PostgreSQL."""
    answer_ms: float
    """The latency of a purchase on an idle server."""


class _Known(Struct, frozen=True):
    """The source of a figure: the bench, its name there, and its meaning. `instead` lists engines to fall back on if
    the plan's own was not measured."""

    bench: str
    name: str
    about: str
    instead: tuple[str, ...] = ("sqlite", "postgres", "redis")


# In Redis mode the ledger is PostgreSQL.
_OF_LEDGER = ("postgres", "sqlite")
_KNOWN = {
    "purchase": _Known("room", "purchases", "purchases over HTTP by buyers with a key, one server process"),
    "refusal": _Known("room", "refusals", "purchases refused over HTTP, with a key, one server process"),
    "join": _Known("room", "joins", "joins over HTTP, one server process"),
    "look": _Known("room", "now", "looks at `now`, one server process"),
    "edge": _Known("http", "bare_rsgi", "constant answers by an RSGI handler, one core; no proxy was measured"),
    "line": _Known("room", "joins_desk", "places given in one line, without HTTP", _OF_LEDGER),
    "gate": _Known("gate", "holdfast_keyed", "decisions with a key, without HTTP", ()),
    "wallet": _Known("settlement", "holdfast", "wallet orders by one settler", _OF_LEDGER),
}
# The output of a single bench does not name it, so it is recognised by a figure that no other bench has.
_MARKS = {"available": "http", "holdfast_limited": "gate", "joins": "room", "one_per_order": "settlement"}
_BY_HAND = "no bench has it: processor time of one request, docs/PLAN.md"
_WITHOUT_A_BENCH = {
    "confirm": Figure(3_400, "carts confirmed over HTTP, one server process", _BY_HAND),
    "watch": Figure(9_000, "looks at a reservation over HTTP, one server process", _BY_HAND),
    "receipt": Figure(8_000, "looks at one's orders over HTTP, one server process", _BY_HAND),
    "card": Figure(480, "orders through the sandbox by one worker", _BY_HAND),
    "drain": Figure(33_000, "changes drained by one worker", "no bench has it: docs/BENCHMARKS.md, Measured by hand"),
    "ledger": Figure(
        76_923, "changes, 13 µs of PostgreSQL each", "no bench has it: docs/BENCHMARKS.md, Measured by hand"
    ),
}
_ANSWER_MS = 4.9


class _Bench(Struct):
    figures: dict[str, float]
    machine: dict[str, Any] = {}
    latency_ms: dict[str, dict[str, float]] = {}
    bench: str = ""
    engine: str = ""

    @property
    def name(self) -> str:
        return self.bench or next((name for mark, name in _MARKS.items() if mark in self.figures), "")

    @property
    def of_engine(self) -> str:
        return self.engine or str(self.machine.get("engine", ""))


class _All(Struct):
    """The output of `holdfast bench all --json`."""

    benches: list[_Bench]
    date: str = ""


def measured(engine: str) -> Figures:
    """The built-in figures."""
    found = msgspec.json.decode(files("holdfast.lab.plan").joinpath("measured.json").read_bytes(), type=_All)
    source = f"holdfast bench, {found.date}"
    figures: dict[str, Any] = {name: _find(found.benches, known, engine, source) for name, known in _KNOWN.items()}
    http = next((one for one in found.benches if (one.name, one.of_engine) == ("http", engine)), None)
    return Figures(
        **figures, **_WITHOUT_A_BENCH, answer_ms=_ANSWER_MS if http is None else _answer_ms(http, _ANSWER_MS)
    )


def _find(benches: list[_Bench], known: _Known, engine: str, source: str) -> Figure:
    for measured_on in (engine, *(one for one in known.instead if one != engine)):
        for one in benches:
            if (one.name, one.of_engine) == (known.bench, measured_on) and one.figures.get(known.name, 0) > 0:
                where = measured_on if measured_on == engine else f"{measured_on}, not measured on {engine}"
                return Figure(one.figures[known.name], known.about, f"{source}: {known.bench} on {where}")
    raise SettingsError(f"measured.json has no {known.name} of `bench {known.bench}` for {engine}")


def read_figures(figures: Figures, engine: str, path: Path) -> Figures:
    """Replaces the figures contained in this output of `holdfast bench … --json`."""
    changed: dict[str, Any] = {}
    fitting = [one for one in _read(path) if one.of_engine == engine or _is_ledger_of(engine, one)]
    for one in sorted(fitting, key=lambda one: one.of_engine == engine):
        changed |= dict(_taken(one, path))
        if one.name == "http":
            changed["answer_ms"] = _answer_ms(one, figures.answer_ms)
    if not changed:
        raise SettingsError(f"--figures: {path} has none of the figures that a plan for {engine} is made from")
    return replace(figures, **changed)


def _is_ledger_of(engine: str, bench: _Bench) -> bool:
    return engine == "redis" and bench.of_engine == "postgres" and bench.name in ("room", "settlement")


def _read(path: Path) -> list[_Bench]:
    try:
        text = path.read_bytes()
        output = msgspec.json.decode(text)
        if isinstance(output, dict) and "benches" in output:
            return msgspec.json.decode(text, type=_All).benches
        return [msgspec.json.decode(text, type=_Bench)]
    except OSError as exc:
        raise SettingsError(f"--figures: {path} cannot be read: {exc.strerror}") from exc
    except msgspec.MsgspecError as exc:
        raise SettingsError(f"--figures: {path} is not what `holdfast bench … --json` prints: {exc}") from exc


def _taken(bench: _Bench, path: Path) -> Iterator[tuple[str, Figure]]:
    """The figures of a bench, and those that no bench measures if the file has them."""
    known = {name: (one.name, one.about) for name, one in _KNOWN.items() if one.bench == bench.name}
    known |= {name: (name, one.about) for name, one in _WITHOUT_A_BENCH.items()}
    for name, (figure, about) in known.items():
        value = bench.figures.get(figure)
        if value is None:
            continue
        if value <= 0:
            raise SettingsError(f"--figures: {figure} is {value:g}, which nothing can be planned with")
        yield name, Figure(value, about, f"{path.name}: {bench.name or 'by hand'} on {bench.of_engine}")


def _answer_ms(bench: _Bench, otherwise: float) -> float:
    return bench.latency_ms.get("holdfast", {}).get("p50", otherwise)
