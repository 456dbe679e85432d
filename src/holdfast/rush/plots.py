"""Plots as SVG, small enough to stand in a page: lines, stacked areas, points. Colours are the page's (`--c0`, …)."""

from collections.abc import Callable, Sequence
from html import escape
from math import floor, log10

from msgspec import Struct

WIDTH, HEIGHT = 720, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 10, 40
TICKS = 5
POINTS_MAX = 700

Point = tuple[float, float]


class Series(Struct, frozen=True):
    """`colour` counts into the page's palette."""

    name: str
    points: Sequence[Point]
    colour: int = 0


class Axis(Struct, frozen=True):
    """A scale from a value to a place between 0 and 1."""

    label: str
    ticks: Sequence[tuple[float, str]]
    place: Callable[[float], float]


def linear(label: str, most: float, least: float = 0.0) -> Axis:
    steps = ticks_to(most - least)
    top = least + steps[-1]
    return Axis(label, [(least + step, number(least + step)) for step in steps], lambda x: (x - least) / (top - least))


def logarithmic(label: str, least: float, most: float) -> Axis:
    first, last = floor(log10(least)), max(floor(log10(least)) + 1, -floor(-log10(most)))
    powers = [10.0**power for power in range(first, last + 1)]
    return Axis(label, [(p, number(p)) for p in powers], lambda x: (log10(max(x, 10**first)) - first) / (last - first))


def ticks_to(most: float) -> list[float]:
    """From 0 to at least this, in steps of 1, 2 or 5 times a power of ten."""
    if most <= 0:
        return [0.0, 1.0]
    power = 10.0 ** floor(log10(most / TICKS))
    step = next(power * part for part in (1, 2, 5, 10) if power * part * TICKS >= most)
    return [step * count for count in range(-int(-most // step) + 1)]


def number(value: float) -> str:
    if abs(value) >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    if abs(value) >= 10_000:
        return f"{value / 1_000:g}k"
    return f"{value:,.0f}" if value == int(value) else f"{value:.3g}"


def line_plot(series: Sequence[Series], x: Axis, y: Axis) -> str:
    drawn = [
        f'<polyline class="line" style="stroke:var(--c{one.colour})" points="{_path(thinned(one.points), x, y)}"/>'
        for one in series
        if one.points
    ]
    return _plot(x, y, drawn)


def stacked_plot(series: Sequence[Series], x: Axis, y: Axis) -> str:
    """The first lies at the bottom. All must have the same places on the x axis."""
    floor_ = [0.0] * len(series[0].points) if series else []
    drawn = []
    for one in series:
        top = [below + value for below, (_, value) in zip(floor_, one.points, strict=True)]
        edge = [(at, value) for (at, _), value in zip(one.points, top, strict=True)]
        base = [(at, value) for (at, _), value in zip(one.points, floor_, strict=True)]
        outline = _path([*thinned(edge), *reversed(thinned(base))], x, y)
        drawn.append(f'<polygon class="area" style="fill:var(--c{one.colour})" points="{outline}"/>')
        floor_ = top
    return _plot(x, y, drawn)


def scatter_plot(series: Sequence[Series], x: Axis, y: Axis) -> str:
    """With the diagonal, on which everything lies that kept its order."""
    drawn = [f'<line class="guide" x1="{LEFT}" y1="{_down(0)}" x2="{WIDTH - RIGHT}" y2="{_down(1)}"/>']
    for one in series:
        every = max(1, len(one.points) // (2 * POINTS_MAX))
        dots = "".join(f"M{_across(x.place(a)):.1f} {_down(y.place(b)):.1f}h0" for a, b in one.points[::every])
        drawn.append(f'<path class="dots" style="stroke:var(--c{one.colour})" d="{dots}"/>')
    return _plot(x, y, drawn)


def thinned(points: Sequence[Point]) -> list[Point]:
    every = max(1, len(points) // POINTS_MAX)
    return [*points[::every], points[-1]] if points else []


def _path(points: Sequence[Point], x: Axis, y: Axis) -> str:
    return " ".join(f"{_across(x.place(a)):.1f},{_down(y.place(b)):.1f}" for a, b in points)


def _across(part: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * min(max(part, 0.0), 1.0)


def _down(part: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - min(max(part, 0.0), 1.0))


def _plot(x: Axis, y: Axis, drawn: Sequence[str]) -> str:
    grid = []
    for value, words in y.ticks:
        at = _down(y.place(value))
        grid.append(f'<line class="grid" x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}"/>')
        grid.append(f'<text class="end" x="{LEFT - 8}" y="{at + 4:.1f}">{words}</text>')
    for value, words in x.ticks:
        # The last would stick out.
        kind = "end" if x.place(value) > 1 - 1e-9 else "mid"
        grid.append(f'<text class="{kind}" x="{_across(x.place(value)):.1f}" y="{HEIGHT - BOTTOM + 17}">{words}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    grid.append(f'<text class="mid name" x="{middle}" y="{HEIGHT - 5}">{escape(x.label)}</text>')
    name = f"{y.label} against {x.label}"
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(name)}">'
    return "".join([head, *grid, *drawn, "</svg>"])
