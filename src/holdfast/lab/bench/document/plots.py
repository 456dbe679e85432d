"""The plots beside docs/BENCHMARKS.md."""

from holdfast.lab.bench.growth.curves import NAMES
from holdfast.lab.bench.measure.results import Measured
from holdfast.lab.charts.chart import Series
from holdfast.lab.charts.docs_plots import Panel, plot

ENGINES = {"sqlite": 0, "postgres": 1, "redis": 2}
# The figures drawn for each curve, one panel each; milliseconds on a logarithmic axis.
PANELS = {
    "waiting": ("per_second", "p50_ms", "p99_ms"),
    "pools": ("per_second", "p99_ms"),
    "held": ("per_second", "p99_ms", "find_ms", "view_ms", "expire_ms", "process_mb"),
    "line": ("per_second", "p99_ms", "again_per_second", "room_ms"),
}
TITLES = {
    "waiting": "Concurrent commands",
    "pools": "Pools in use at once",
    "held": "Held reservations",
    "line": "Queue length",
}


def plots_of(measured: Measured) -> dict[str, str]:
    """SVG texts by file name."""
    drawn = {f"growth-{name}.svg": _plot(measured, name) for name in PANELS}
    return {name: svg for name, svg in drawn.items() if svg}


def _plot(measured: Measured, curve: str) -> str:
    panels = [
        Panel(NAMES[value][0], series, is_log=value.endswith("_ms"))
        for value in PANELS[curve]
        if (series := _all_series(measured, curve, value))
    ]
    if not panels:
        return ""
    grows = next(bench.curves[curve]["grows"] for bench in measured.benches if curve in bench.curves)
    return plot(TITLES[curve], panels, grows, is_log_x=True)


def _all_series(measured: Measured, curve: str, value: str) -> list[Series]:
    return [one for engine in ENGINES if (one := _series(measured, curve, value, engine)).points]


def _series(measured: Measured, curve: str, value: str, engine: str) -> Series:
    bench = measured.of("growth", engine)
    points = bench.curves.get(curve, {}).get("points", []) if bench else []
    known = [(float(point["at"]), float(point[value])) for point in points if value in point]
    return Series(engine, known, ENGINES[engine])
