"""The section on growth: a plot and a table per dimension."""

from typing import Any

from holdfast.lab.bench.document.columns import SHOWN
from holdfast.lab.bench.document.markdown import milliseconds, number, paragraph, table
from holdfast.lab.bench.document.plots import TITLES
from holdfast.lab.bench.growth.curves import NAMES
from holdfast.lab.bench.measure.results import Measured

PROSE = {
    "waiting": "More waiting commands make larger batches with one lock and one fsync. Beyond some hundreds a batch is"
    " full, and more commands only wait longer.",
    "pools": "Pools do not share a batch. With many pools each batch is small, and few commands share the cost of a"
    " transaction: the price of deciding each pool separately. On SQLite concurrent writers share a commit.",
    "held": "Buyers take a unit and return it, so that the number of holds stays constant. A look-up, a stock query"
    " and the expiry of 500 reservations use an index; the consistency check and the rebuild of a lost Redis pool read"
    " every reservation of the pool, the latter in portions, so that memory stays constant.",
    "line": "Everyone who joins leaves again, so that the queue keeps its length. A look is a second join, which finds"
    " the place of the first. The state of the queue is one row.",
}


def growth(measured: Measured) -> str:
    head = "`holdfast bench growth --engine …`: the same figures while one dimension grows."
    return "\n\n".join([head, *(part for name in TITLES if (part := _part(measured, name)))])


def _part(measured: Measured, name: str) -> str:
    tables = [
        f"{SHOWN[engine]}:\n\n{_table(bench.curves[name])}"
        for engine in SHOWN
        if (bench := measured.of("growth", engine)) is not None and name in bench.curves
    ]
    if not tables:
        return ""
    plot = f"![{TITLES[name]}](benchmarks/growth-{name}.svg)"
    return "\n\n".join([f"### {TITLES[name]}", paragraph(PROSE[name]), plot, *tables])


def _table(curve: dict[str, Any]) -> str:
    points = curve["points"]
    names = [name for name in NAMES if any(name in point for point in points)]
    rows = [[number(point["at"]), *(_cell(name, point.get(name)) for name in names)] for point in points]
    return table([curve["grows"], *(NAMES[name][0] for name in names)], rows)


def _cell(name: str, value: float | None) -> str:
    return milliseconds(value) if name.endswith("_ms") else number(value)
