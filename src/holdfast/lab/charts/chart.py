"""The content of a chart, independent of how it is drawn."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

POINTS_MAX = 700

Point = tuple[float, float]


class Series(Struct, frozen=True):
    """`colour` is an index into the palette of report.css."""

    name: str
    points: Sequence[Point]
    colour: int = 0


class Axis(Struct, frozen=True, omit_defaults=True):
    label: str
    top: float | None = None
    is_log: bool = False
    ticks: Sequence[tuple[float, str]] = ()
    """Positions and labels; chosen automatically if empty."""


class Chart(Struct, frozen=True):
    """In a stacked chart the first series is at the bottom, and all have the same x values."""

    title: str
    about: str
    kind: Literal["lines", "stacked", "scatter"]
    x: Axis
    y: Axis
    series: list[Series]


def thinned(points: Sequence[Point], most: int = POINTS_MAX) -> list[Point]:
    every = max(1, len(points) // most)
    return [*points[::every], points[-1]] if points else []
