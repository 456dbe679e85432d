"""Curves: the same figures at growing sizes."""

from typing import Any

from msgspec import Struct

from holdfast.lab.bench.measure.report import Table, machine_line

# The display name of each figure, and its number of decimals.
NAMES = {
    "per_second": ("per second", 0),
    "busy_per_second": ("refused as busy", 0),
    "p50_ms": ("p50 ms", 1),
    "p99_ms": ("p99 ms", 1),
    "again_per_second": ("look-ups of place per second", 0),
    "again_p99_ms": ("look-up of place, p99 ms", 1),
    "room_ms": ("queue state, ms", 2),
    "find_ms": ("look-up ms", 2),
    "view_ms": ("stock query, ms", 2),
    "expire_ms": ("500 expire, ms", 1),
    "idle_ms": ("nothing expires, ms", 2),
    "check_ms": ("conservation check ms", 1),
    "rebuild_ms": ("rebuild ms", 0),
    "process_mb": ("process MB", 0),
    "valkey_mb": ("Valkey MB", 0),
}


class Point(Struct, frozen=True):
    at: int
    values: dict[str, float]


class Curve(Struct, frozen=True):
    name: str
    about: str
    grows: str
    """The label of the x axis."""
    points: list[Point]

    def columns(self) -> list[str]:
        return [name for name in NAMES if any(name in point.values for point in self.points)]

    def table(self) -> Table:
        names = self.columns()
        rows: list[list[object]] = [
            [point.at, *(_told(name, point.values.get(name)) for name in names)] for point in self.points
        ]
        return Table(self.about, [self.grows, *(NAMES[name][0] for name in names)], rows)


def _told(name: str, value: float | None) -> object:
    if value is None:
        return None
    digits = NAMES[name][1]
    return round(value) if digits == 0 else round(value, digits)


class Growth(Struct, frozen=True):
    title: str
    curves: list[Curve]
    machine: dict[str, Any]

    def body(self) -> dict[str, Any]:
        points = {f"{curve.name}_{point.at}": point.values for curve in self.curves for point in curve.points}
        return {
            "figures": {name: values["per_second"] for name, values in points.items()},
            "ratios": {name: ratio for curve in self.curves for name, ratio in _last_of_first(curve).items()},
            "latency_ms": {name: {"p50": values["p50_ms"], "p99": values["p99_ms"]} for name, values in points.items()},
            "machine": self.machine,
            "curves": {
                curve.name: {
                    "about": curve.about,
                    "grows": curve.grows,
                    "points": [{"at": point.at, **point.values} for point in curve.points],
                }
                for curve in self.curves
            },
        }

    def tables(self) -> list[Table]:
        return [curve.table() for curve in self.curves]

    def notes(self) -> list[str]:
        return [machine_line(self.machine)]


def _last_of_first(curve: Curve) -> dict[str, float]:
    """Ratios of the largest size to the smallest."""
    first, last = curve.points[0].values, curve.points[-1].values
    ratios = {f"{curve.name}_last_of_first": last["per_second"] / first["per_second"]}
    for name in ("find_ms", "view_ms", "expire_ms", "process_mb"):
        if name in first:
            ratios[f"{curve.name}_{name.removesuffix('_ms')}"] = last[name] / max(first[name], 1e-6)
    return {name: round(ratio, 3) for name, ratio in ratios.items()}
