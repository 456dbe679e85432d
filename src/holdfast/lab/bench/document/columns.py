"""One row per figure, one column per engine."""

from collections.abc import Callable, Sequence

from holdfast.lab.bench.document.markdown import milliseconds, number, percent, table, times
from holdfast.lab.bench.measure.results import Bench, Measured

SHOWN = {"sqlite": "SQLite", "postgres": "PostgreSQL", "redis": "Redis"}
Cell = Callable[[Bench], str]
Row = tuple[str, Cell]


def by_engine(measured: Measured, bench: str, what: str, rows: Sequence[Row]) -> str:
    """Omits engines and figures that were not measured."""
    found = {engine: one for engine in SHOWN if (one := measured.of(bench, engine)) is not None}
    cells = [[words, *(cell(one) for one in found.values())] for words, cell in rows]
    return table([what, *(SHOWN[engine] for engine in found)], [row for row in cells if any(row[1:])])


def figure(name: str, *, strong: bool = False) -> Cell:
    def cell(bench: Bench) -> str:
        told = number(bench.figures.get(name))
        return f"**{told}**" if strong and told else told

    return cell


def baseline(name: str, ratio: str | None = None) -> Cell:
    """A baseline, and the ratio of ours to it."""

    def cell(bench: Bench) -> str:
        value, ours = bench.figures.get(name), bench.ratios.get(ratio or name)
        return "" if value is None else f"{number(value)} (ours is {times(ours)})"

    return cell


def best_ratio(ours: str, theirs: str) -> Cell:
    """The ratio of our best round to their best round."""

    def cell(bench: Bench) -> str:
        rounds = [bench.rounds.get(name) for name in (ours, theirs)]
        return times(max(rounds[0]) / max(rounds[1])) if rounds[0] and rounds[1] else ""

    return cell


def ratio_times(name: str) -> Cell:
    return lambda bench: times(bench.ratios.get(name))


def ratio_percent(name: str) -> Cell:
    return lambda bench: percent(bench.ratios.get(name))


def latency(name: str) -> Cell:
    def cell(bench: Bench) -> str:
        found = bench.latency_ms.get(name)
        return "" if found is None else f"{milliseconds(found['p50'])} and {milliseconds(found['p99'])} ms"

    return cell


def memory(bench: Bench) -> str:
    found = bench.memory_mb
    if not found:
        return ""
    return f"{number(found['before'])} MB, {number(found['after'])} MB after {number(found['attempts'])} attempts"
