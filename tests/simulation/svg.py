"""Plain line charts as SVG, the same bytes every time. Panels stand one above the other over one axis."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, PANEL, GAP = 760, 120, 34
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 44, 40
INK, PALE, COLOURS = "#222", "#ddd", ("#0b62a4", "#d9822b", "#4b8b3b")
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}.t{font-size:15px;font-weight:600}"
    ".n{text-anchor:end}.c{text-anchor:middle}path{fill:none;stroke-width:1.6}"
)


@dataclass(frozen=True)
class Line:
    name: str
    points: Sequence[tuple[float, float]]
    is_dashed: bool = False


@dataclass(frozen=True)
class Panel:
    name: str
    lines: Sequence[Line]
    top: float | None = None


def chart(title: str, panels: Sequence[Panel], axis: str) -> str:
    right = round_up(max(x for panel in panels for line in panel.lines for x, _ in line.points))
    height = TOP + len(panels) * (PANEL + GAP) - GAP + BOTTOM
    drawn = [text(LEFT, 20, title, "t")]
    for number, panel in enumerate(panels):
        drawn.extend(draw_panel(panel, TOP + number * (PANEL + GAP), right))
    foot = height - BOTTOM
    ticks = [right * part / 4 for part in range(5)]
    drawn.extend(text(across(tick, right), foot + 16, number_of(tick), "c") for tick in ticks)
    drawn.append(text(across(right / 2, right), foot + 33, axis, "c"))
    named = f'role="img" aria-label="{escape(title)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {named}>'
    ground = f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", ground, *drawn, "</svg>", ""])


def draw_panel(panel: Panel, above: int, right: float) -> list[str]:
    top = panel.top or round_up(max(y for line in panel.lines for _, y in line.points))
    drawn = [text(LEFT, above - 8, panel.name)]
    for part in (0.0, 0.5, 1.0):
        y = above + PANEL * (1 - part)
        drawn.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{PALE}"/>')
        drawn.append(text(LEFT - 8, y + 4, number_of(top * part), "n"))
    for number, line in enumerate(panel.lines):
        colour = COLOURS[number]
        steps = [
            f"{across(x, right):.1f} {above + PANEL * (1 - min(y, top) / top):.1f}" for x, y in thinned(line.points)
        ]
        dashes = ' stroke-dasharray="5 4"' if line.is_dashed else ""
        drawn.append(f'<path d="M{"L".join(steps)}" stroke="{colour}"{dashes}/>')
        key = above + 16 + 20 * number
        drawn.append(f'<path d="M{WIDTH - RIGHT + 10} {key - 4}h18" stroke="{colour}"{dashes}/>')
        drawn.append(text(WIDTH - RIGHT + 34, key, line.name))
    return drawn


def thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """About one point per two pixels."""
    every = max(1, len(points) // ((WIDTH - LEFT - RIGHT) // 2))
    return [*points[::every], points[-1]]


def across(x: float, right: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * x / right


def text(x: float, y: float, words: str, style: str = "") -> str:
    kind = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{kind}>{escape(words)}</text>'


def number_of(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}".rstrip("0")


def round_up(value: float) -> float:
    """To 1, 2, 4, 6 or 8 times a power of ten, so that the quarters of an axis are plain numbers."""
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value > 0:
        power /= 10
    return next((step * power for step in (1, 2, 4, 6, 8) if step * power >= value), 10 * power)
