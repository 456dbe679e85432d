"""The section on growth: a plot and a table for each thing that grows."""

from typing import Any

from holdfast.bench.document.columns import SHOWN
from holdfast.bench.document.markdown import milliseconds, number, paragraph, table
from holdfast.bench.document.plots import TITLES
from holdfast.bench.growth.curves import NAMES
from holdfast.bench.measured import Measured

PROSE = {
    "waiting": "More who wait together make larger batches: one lock and one fsync for all of them. Beyond some"
    " hundreds a batch is full, and whoever comes then only waits longer.",
    "pools": "Pools do not share a batch. Where many pools are asked at once each batch is small, and what a"
    " transaction costs is paid by few: this is the price of deciding each pool by itself. On SQLite those who wait"
    " share a commit.",
    "held": "Buyers take a unit and give it back, so that as many stay held. A look-up, the number of units left, and"
    " the expiry of 500 that are due go by index; the conservation check goes through every reservation of the pool,"
    " and so does the rebuild of a pool that Redis has lost, in portions, so that memory stays.",
    "line": "Who joins leaves again, so that as many stay in line. A look is a second join, which finds the place of"
    " the first. How the line stands is one row.",
}


def growth(measured: Measured) -> str:
    head = "`holdfast bench growth --engine …`: the same figures again and again, while something grows."
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
