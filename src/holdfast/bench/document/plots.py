"""The plots beside docs/BENCHMARKS.md: SVG files that stand alone and follow the reader's light or dark."""

from html import escape
from importlib.resources import files

from holdfast.bench.growth.curves import NAMES
from holdfast.bench.measured import Measured
from holdfast.rush.plots import HEIGHT, WIDTH, Axis, Series, line_plot, linear, logarithmic

ENGINES = {"sqlite": 0, "postgres": 1, "redis": 2}
# Which figures of a curve are drawn, one above the other; those in milliseconds on a logarithmic axis.
PANELS = {
    "waiting": ("per_second", "p50_ms", "p99_ms"),
    "pools": ("per_second", "p99_ms"),
    "held": ("per_second", "p99_ms", "find_ms", "view_ms", "expire_ms", "process_mb"),
    "line": ("per_second", "p99_ms", "again_per_second", "room_ms"),
}
TITLES = {
    "waiting": "Commands waiting at a time",
    "pools": "Pools asked at once",
    "held": "Reservations held",
    "line": "People in line",
}
_HEAD, _NAME = 54, 22
_STYLE = """
.bg{fill:var(--card)}text{font:12px system-ui,sans-serif;fill:var(--soft)}
.title{font-size:16px;font-weight:600;fill:var(--ink)}
.what{fill:var(--ink);font-weight:600}.mid{text-anchor:middle}.end{text-anchor:end}.grid{stroke:var(--line)}
.line{fill:none;stroke-width:2;stroke-linejoin:round}
"""


def plots_of(measured: Measured) -> dict[str, str]:
    """By file name."""
    drawn = {f"growth-{name}.svg": _plot(measured, name) for name in PANELS}
    return {name: svg for name, svg in drawn.items() if svg}


def _plot(measured: Measured, curve: str) -> str:
    panels = [(NAMES[value][0], panel) for value in PANELS[curve] if (panel := _panel(measured, curve, value))]
    return _standalone(TITLES[curve], panels) if panels else ""


def _panel(measured: Measured, curve: str, value: str) -> str:
    series = [one for engine in ENGINES if (one := _series(measured, curve, value, engine)).points]
    if not series:
        return ""
    places = [at for one in series for at, _ in one.points]
    highest, lowest = (choose(y for one in series for _, y in one.points) for choose in (max, min))
    grows = next(bench.curves[curve]["grows"] for bench in measured.benches if curve in bench.curves)
    x = logarithmic(grows, min(places), max(places))
    return line_plot(series, x, _height(value, lowest, highest))


def _height(value: str, lowest: float, highest: float) -> Axis:
    if value.endswith("_ms"):
        return logarithmic("ms", max(lowest, 0.01), max(highest, 0.02))
    return linear(NAMES[value][0], highest)


def _series(measured: Measured, curve: str, value: str, engine: str) -> Series:
    bench = measured.of("growth", engine)
    points = bench.curves.get(curve, {}).get("points", []) if bench else []
    known = [(float(point["at"]), float(point[value])) for point in points if value in point]
    return Series(engine, known, ENGINES[engine])


def _standalone(title: str, panels: list[tuple[str, str]]) -> str:
    height = _HEAD + len(panels) * (HEIGHT + _NAME)
    named = f'role="img" aria-label="{escape(title)}"'
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {named}>',
        f"<style>{_colours()}{_STYLE}</style>",
        f'<rect class="bg" width="{WIDTH}" height="{height}"/>',
        f'<text class="title" x="16" y="26">{escape(title)}</text>',
        *_legend(),
    ]
    for number, (name, panel) in enumerate(panels):
        top = _HEAD + number * (HEIGHT + _NAME)
        drawn.append(f'<text class="what" x="16" y="{top + 8}">{escape(name)}</text>')
        drawn.append(panel.replace("<svg ", f'<svg y="{top + 12}" width="{WIDTH}" height="{HEIGHT}" ', 1))
    return "\n".join([*drawn, "</svg>", ""])


def _legend() -> list[str]:
    return [
        f'<path class="line" style="stroke:var(--c{colour})" d="M{440 + 90 * number} 21h18"/>'
        f'<text x="{464 + 90 * number}" y="25">{engine}</text>'
        for number, (engine, colour) in enumerate(ENGINES.items())
    ]


def _colours() -> str:
    """Those of the report of a rush: the first rules of its style, for light and for dark."""
    return files("holdfast.rush").joinpath("page.css").read_text().partition("*{")[0]
