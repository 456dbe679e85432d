"""Plots for the docs: deterministic SVG files by matplotlib that follow the reader's light or dark scheme.

matplotlib supports only fixed colours. So it draws with placeholders, which are then replaced by CSS variables that the
SVG itself defines for both colour schemes.
"""

import importlib.util
from collections.abc import Sequence
from html import escape
from io import StringIO
from typing import Any

from msgspec import Struct

from holdfast.errors import SettingsError
from holdfast.lab.charts.chart import Series, thinned

_WIDTH, _PANEL_HEIGHT, _HEAD_HEIGHT = 7.6, 1.75, 0.75
_INK, _SOFT, _GRID, _PAPER = "#010101", "#020202", "#030303", "#040404"
_COLOURS = ("#050505", "#060606", "#070707")
_LIGHT = {_INK: "#1d2330", _SOFT: "#667085", _GRID: "#e4e7ec", _PAPER: "#ffffff"}
_DARK = {_INK: "#e7eaf0", _SOFT: "#98a2b3", _GRID: "#2a313d", _PAPER: "#0f131a"}
_LIGHT |= dict(zip(_COLOURS, ("#2563eb", "#0f9d63", "#dc5a2b"), strict=True))
_DARK |= dict(zip(_COLOURS, ("#6ea0ff", "#3ecf8e", "#ff8a5c"), strict=True))
_STYLE: Any = {
    "svg.hashsalt": "holdfast",
    "svg.fonttype": "none",
    "font.size": 9,
    "text.color": _INK,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _SOFT,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
    "xtick.color": _GRID,
    "ytick.color": _GRID,
    "xtick.labelcolor": _SOFT,
    "ytick.labelcolor": _SOFT,
    "legend.frameon": False,
    "figure.facecolor": _PAPER,
    "axes.facecolor": _PAPER,
    "savefig.facecolor": _PAPER,
    "lines.linewidth": 1.6,
}


class Panel(Struct, frozen=True):
    """Series named in `dashed` are drawn as dashed lines."""

    title: str
    series: Sequence[Series]
    is_log: bool = False
    top: float | None = None
    dashed: frozenset[str] = frozenset()


def check_matplotlib() -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise SettingsError("plots need matplotlib: pip install 'holdfast[bench]' (or: make install-dev)")


def plot(title: str, panels: Sequence[Panel], x_label: str, *, is_log_x: bool = False) -> str:
    """Draws panels one above the other, with a common x axis."""
    check_matplotlib()
    # The import takes half a second, and only plots need it.
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context(_STYLE):
        figure = Figure((_WIDTH, _HEAD_HEIGHT + _PANEL_HEIGHT * len(panels)), layout="constrained")
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False)
        for panel, axes in zip(panels, grid[:, 0], strict=True):
            _draw(axes, panel, is_log_x)
        grid[-1, 0].set_xlabel(x_label)
        written = StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    return _with_colour_schemes(written.getvalue(), title)


def _draw(axes: Any, panel: Panel, is_log_x: bool) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator, StrMethodFormatter  # noqa: PLC0415

    for series in panel.series:
        x, y = zip(*thinned(series.points, 300), strict=True)
        dashes = "--" if series.name in panel.dashed else "-"
        axes.plot(x, y, dashes, label=series.name, color=_COLOURS[series.colour], marker="o" if is_log_x else "", ms=3)
    axes.set_title(panel.title)
    axes.set_xscale("log" if is_log_x else "linear")
    axes.set_yscale("log" if panel.is_log else "linear")
    if is_log_x:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if panel.is_log:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=6))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.minorticks_off()
    else:
        axes.set_ylim(0, panel.top)
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    if not is_log_x:
        axes.set_xlim(0)
    if len(panel.series) > 1:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _with_colour_schemes(svg: str, title: str) -> str:
    names = {placeholder: f"--c{number}" for number, placeholder in enumerate(_LIGHT)}
    for placeholder, name in names.items():
        svg = svg.replace(placeholder, f"var({name})")
    light, dark = (
        ";".join(f"{names[placeholder]}:{colour}" for placeholder, colour in scheme.items())
        for scheme in (_LIGHT, _DARK)
    )
    style = f"svg{{{light}}}@media (prefers-color-scheme:dark){{svg{{{dark}}}}}"
    style += "text{font-family:system-ui,sans-serif!important}"
    start = svg.index("<svg")
    end = svg.index(">", start)
    head = f'{svg[start:end]} role="img" aria-label="{escape(title)}"><style>{style}</style>'
    return head + svg[end + 1 :]
