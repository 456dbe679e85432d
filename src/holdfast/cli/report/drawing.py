"""Charts as plain SVG: no script, so that the page can be printed, mailed and kept."""

from collections.abc import Sequence
from html import escape

from holdfast.cli.report.sections import duration, time_of
from holdfast.ledger.sales.report import Bar

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 900, 240, 46, 24, 10
_SERIES = (("reserved", "var(--blue)"), ("sold", "var(--good)"), ("returned", "var(--orange)"))
_LABELS = 6


def timeline(bars: Sequence[Bar], bar_seconds: int) -> str:
    """Three bars for each stretch of time: reserved, sold and returned units."""
    if not bars:
        return "<p>Nobody reserved anything.</p>"
    top = max(1, *(max(bar.reserved, bar.sold, bar.returned) for bar in bars))
    width = (_WIDTH - _LEFT) / len(bars)
    drawn = "".join(_bars(bar, _LEFT + index * width, width, top) for index, bar in enumerate(bars))
    legend = " ".join(f'<span><i style="background:{colour}"></i>{name}</span>' for name, colour in _SERIES)
    what = f"Units reserved, sold and returned, {duration(bar_seconds * 1000)} for each group of bars"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{what}">{_grid(top)}{drawn}'
        f'{_times(bars, width)}</svg><p class="legend">{legend} <span>{what}.</span></p>'
    )


def _bars(bar: Bar, x: float, width: float, top: int) -> str:
    each = width * 0.9 / len(_SERIES)
    return "".join(
        f'<rect x="{x + number * each:.1f}" y="{_y(units, top):.1f}" width="{max(each, 0.5):.1f}" '
        f'height="{_HEIGHT - _BOTTOM - _y(units, top):.1f}" fill="{colour}"/>'
        for number, (name, colour) in enumerate(_SERIES)
        if (units := getattr(bar, name))
    )


def _y(units: int, top: int) -> float:
    return _TOP + (_HEIGHT - _BOTTOM - _TOP) * (1 - units / top)


def _grid(top: int) -> str:
    lines = sorted({0, top // 2, top})
    return "".join(
        f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{_y(units, top):.1f}" y2="{_y(units, top):.1f}" class="grid"/>'
        f'<text x="{_LEFT - 6}" y="{_y(units, top) + 4:.1f}" text-anchor="end">{units:,}</text>'
        for units in lines
    )


def _times(bars: Sequence[Bar], width: float) -> str:
    every = max(1, -(-len(bars) // _LABELS))
    return "".join(
        f'<text x="{_LEFT + index * width:.1f}" y="{_HEIGHT - 6}">{time_of(bars[index].at, only_time=True)}</text>'
        for index in range(0, len(bars), every)
    )


def shares(rows: Sequence[tuple[str, int]], colour: str = "var(--blue)") -> str:
    """Horizontal bars, each as long as its number."""
    if not rows:
        return "<p>None.</p>"
    top = max(number for _, number in rows)
    lines = "".join(
        f'<tr><td>{escape(name)}</td><td class="n">{number:,}</td><td class="bar">'
        f'<i style="width:{100 * number / top:.1f}%;background:{colour}"></i></td></tr>'
        for name, number in rows
    )
    return f'<table class="shares">{lines}</table>'
