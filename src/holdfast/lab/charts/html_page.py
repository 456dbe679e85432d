"""HTML reports: a single self-contained file that opens offline and can be sent by mail.

uPlot, the console's chart library, is inlined; charts follow the reader's light or dark colour scheme.
"""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

import msgspec

from holdfast.lab.charts.chart import Chart, Series, thinned

_UPLOT = files("holdfast.http.web").joinpath("static", "vendor")
_EXPORT = "export { uPlot as default };"


def page(title: str, parts: Iterable[str]) -> str:
    own = files("holdfast.lab.charts")
    style = (_UPLOT / "uplot.css").read_text() + own.joinpath("report.css").read_text()
    # Wrapped in a function, so that its names cannot clash with ours.
    library = (_UPLOT / "uplot.mjs").read_text().replace(_EXPORT, "return uPlot;")
    script = f"const uPlot = (() => {{{library}}})();\n{own.joinpath('report.js').read_text()}"
    return "\n".join(
        [
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<style>{style}</style></head><body><main>",
            *parts,
            "<noscript><p>The charts need JavaScript.</p></noscript>",
            f'</main><script type="module">{script}</script></body></html>',
        ]
    )


def header(title: str, about: str, verdict: str, kind: str) -> str:
    """`kind` is the verdict's colour: "good", "bad" or "none"."""
    return (
        f"<header><div><h1>{escape(title)}</h1><p>{escape(about)}</p></div>"
        f'<div class="verdict {kind}">{escape(verdict)}</div></header>'
    )


def tiles(values: Iterable[tuple[str, str]]) -> str:
    """A row of key figures: each a value and its label."""
    cells = "".join(
        f'<div class="tile"><b>{escape(big)}</b><span>{escape(small)}</span></div>' for big, small in values
    )
    return f'<div class="tiles">{cells}</div>'


def charts(drawn: Iterable[Chart]) -> str:
    return f'<div class="charts">{"".join(map(_figure, drawn))}</div>'


def _figure(chart: Chart) -> str:
    body = msgspec.json.encode(
        {"kind": chart.kind, "x": chart.x, "y": chart.y, "series": [_columns(one, chart.kind) for one in chart.series]}
    )
    # `</` would end the script element.
    data = body.decode().replace("</", "<\\/")
    return (
        f"<figure><h2>{escape(chart.title)}</h2><p>{escape(chart.about)}</p>"
        f'<div class="plot" role="img" aria-label="{escape(chart.title)}"></div>'
        f'<script type="application/json">{data}</script></figure>'
    )


def _columns(series: Series, kind: str) -> dict[str, object]:
    points = thinned(series.points) if kind == "lines" else series.points
    return {
        "name": series.name,
        "colour": series.colour,
        "x": [round(x, 4) for x, _ in points],
        "y": [round(y, 4) for _, y in points],
    }


def section(title: str, *parts: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    first, *others = columns
    head = f"<th>{escape(first)}</th>" + "".join(f'<th class="n">{escape(column)}</th>' for column in others)
    lines = "".join(
        f"<tr><td>{escape(row[0])}</td>" + "".join(f'<td class="n">{escape(cell)}</td>' for cell in row[1:]) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{lines}</table></div>'


def bullets(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def columns(*sections: str) -> str:
    """Places sections side by side where there is room."""
    return f'<div class="two">{"".join(sections)}</div>'


def footer(facts: Iterable[str]) -> str:
    return f"<footer>{escape(' · '.join(facts))}</footer>"
