"""What one core does, as it was measured: the only numbers about machines that a plan is made from.

The defaults are those of docs/BENCHMARKS.md, two cores of a shared virtual machine. Whoever has measured their own
machine gives what `holdfast bench … --json` printed; each file replaces the figures it has, for the engine it is of.
"""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import SettingsError

_HTTP, _ROOM, _GATE = "BENCHMARKS.md, Over HTTP", "BENCHMARKS.md, The room", "BENCHMARKS.md, The gate"
_SETTLEMENT = "BENCHMARKS.md, Settlement"
_LOADED = f"{_ROOM} (loaded machine)"


class Figure(Struct, frozen=True):
    """So many per second of one process, or of one core, or of one row that cannot be split."""

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
    """A cached answer, by one core of whatever stands in front."""
    line: Figure
    """Places given in one line, whatever the number of processes: it is one row of the ledger."""
    gate: Figure
    """Purchases decided by one engine, or one Redis shard."""
    wallet: Figure
    card: Figure
    drain: Figure
    ledger: Figure
    """Changes of the journal, by one core of PostgreSQL."""
    answer_ms: float = 4.9
    """How long a purchase takes when there is nothing else to do."""


_SQLITE = Figures(
    purchase=Figure(10_830, "purchases over HTTP with a key, one server process", _HTTP),
    refusal=Figure(23_406, "sold-out answers over HTTP, one server process", _HTTP),
    join=Figure(5_170, "joins over HTTP, one server process", _LOADED),
    look=Figure(17_698, "looks at `now`, one server process: 66 % of a bare handler's 26,815", _LOADED),
    edge=Figure(43_344, "constant answers, one core: a bare RSGI handler; no proxy was measured", _HTTP),
    line=Figure(16_310, "places given in one line, without HTTP, SQLite", _LOADED),
    gate=Figure(23_002, "decisions with a limit per owner, without HTTP, SQLite", _GATE),
    wallet=Figure(2_928, "wallet orders by one settler, SQLite", _SETTLEMENT),
    card=Figure(340, "orders through the sandbox by one worker", f"{_SETTLEMENT} (loaded machine)"),
    drain=Figure(33_000, "changes drained by one worker", _GATE),
    ledger=Figure(76_923, "changes, 13 µs of PostgreSQL each", _HTTP),
)
_POSTGRES = replace(
    _SQLITE,
    purchase=Figure(8_759, "purchases over HTTP: as in Redis mode, PostgreSQL was not measured", _HTTP),
    line=Figure(11_112, "places given in one line, without HTTP, PostgreSQL", _LOADED),
    gate=Figure(13_193, "decisions with a key, without HTTP, PostgreSQL", _GATE),
    wallet=Figure(1_813, "wallet orders by one settler, PostgreSQL", _SETTLEMENT),
)
_REDIS = replace(
    _POSTGRES,
    purchase=Figure(8_759, "purchases over HTTP: 10,665 in Redis mode, and 82 % of it with a key", _HTTP),
    refusal=Figure(22_764, "sold-out answers over HTTP, one server process, Redis mode", _HTTP),
    gate=Figure(22_690, "decisions with a key, one Valkey, every write synced", _GATE),
)
MEASURED = {"sqlite": _SQLITE, "postgres": _POSTGRES, "redis": _REDIS}

# A bench is known by a figure that only it has; then what each of its figures is here.
_BENCHES = {
    "available": {"holdfast_keyed": "purchase", "sold_out": "refusal", "bare_front": "edge"},
    "holdfast_limited": {"holdfast_keyed": "gate"},
    "joins": {"joins": "join", "joins_desk": "line", "now": "look"},
    "one_per_order": {"holdfast": "wallet"},
    # No bench has these; whoever measured them otherwise writes them into such a file.
    "card": {"card": "card"},
    "drain": {"drain": "drain"},
    "ledger": {"ledger": "ledger"},
}


class _Bench(Struct):
    figures: dict[str, float]
    machine: dict[str, Any]
    latency_ms: dict[str, dict[str, float]] = {}


def read_figures(figures: Figures, engine: str, path: Path) -> Figures:
    """As they are, but for what this file of `holdfast bench … --json` has."""
    try:
        bench = msgspec.json.decode(path.read_bytes(), type=_Bench)
    except OSError as exc:
        raise SettingsError(f"--figures: {path} cannot be read: {exc.strerror}") from exc
    except msgspec.MsgspecError as exc:
        raise SettingsError(f"--figures: {path} is not what `holdfast bench … --json` prints: {exc}") from exc
    measured_on = bench.machine.get("engine")
    found = _found(bench.figures)
    if not found:
        raise SettingsError(f"--figures: {path} has none of the figures that a plan is made from")
    if measured_on != engine and not (engine == "redis" and measured_on == "postgres"):
        raise SettingsError(f"--figures: {path} was measured on {measured_on}, and the plan is for {engine}")
    changed: dict[str, Any] = {name: _measured(figures, name, value, path) for name, value in found.items()}
    if "purchase" in found and "holdfast" in bench.latency_ms:
        changed["answer_ms"] = bench.latency_ms["holdfast"].get("p50", figures.answer_ms)
    return replace(figures, **changed)


def _found(given: dict[str, float]) -> dict[str, float]:
    names: dict[str, str] = {}
    for mark, known in _BENCHES.items():
        if mark in given:
            names |= {name: figure for name, figure in known.items() if name in given}
    for name in names:
        if given[name] <= 0:
            raise SettingsError(f"--figures: {name} is {given[name]:g}, which nothing can be planned with")
    return {figure: given[name] for name, figure in names.items()}


def _measured(figures: Figures, name: str, value: float, path: Path) -> Figure:
    known: Figure = getattr(figures, name)
    return Figure(value, known.about.partition(":")[0], str(path.name))
