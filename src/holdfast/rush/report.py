"""The report: one HTML file with everything in it, that can be sent to whoever was not there."""

from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from holdfast import __version__
from holdfast.bench.machine import machine
from holdfast.rush.charts import Chart, charts_of
from holdfast.rush.figures import figures_of
from holdfast.rush.rehearsal import Rushed


def write_report(rushed: Rushed, path: Path) -> None:
    path.write_text(report(rushed), encoding="utf-8")


def report(rushed: Rushed) -> str:
    figures = figures_of(rushed)
    style = files("holdfast.rush").joinpath("page.css").read_text()
    title = f"Rush: {rushed.options.scenario.name}"
    return "\n".join(
        [
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<style>{style}</style></head><body><main>",
            _header(rushed),
            _tiles(figures),
            _checks(rushed),
            '<div class="plots">',
            *map(figure_of, charts_of(rushed)),
            "</div>",
            _tables(figures),
            _footer(rushed),
            "</main></body></html>",
        ]
    )


def _header(rushed: Rushed) -> str:
    failed = [finding.name for finding in rushed.findings if not finding.ok]
    kind, words = ("bad", f"FAIL: {', '.join(failed)}") if failed else ("", "PASS")
    if not rushed.findings:
        kind, words = "none", "Not checked"
    scenario = rushed.options.scenario
    return (
        f"<header><div><h1>{escape(scenario.name)}</h1><p>{escape(scenario.about)}</p></div>"
        f'<div class="verdict {kind}">{escape(words)}</div></header>'
    )


def _tiles(figures: dict[str, Any]) -> str:
    latency = figures["latency_ms"].get("purchase", {})
    order = figures["fairness"].get("arrival_to_place") or figures["fairness"].get("asked_to_granted")
    told = [
        (f"{figures['users']:,}", "buyers"),
        ("-" if figures["sold"] is None else f"{figures['sold']:,} of {figures['units']:,}", "units sold"),
        (_seconds(figures["sold_out_after_s"]), "until the last was sold"),
        (f"{figures['attempts_per_second_peak']:,.0f}/s", f"attempts at most; {figures['attempts']:,} in all"),
        (f"{figures['requests_per_second_peak']:,.0f}/s", f"requests at most; {figures['requests']:,} in all"),
        (f"{latency.get('p50', 0):,.1f} ms", f"half of the purchases; p99 {latency.get('p99', 0):,.0f} ms"),
        ("-" if order is None else f"{order['in_order']:.1%}", "of all pairs in order of arrival"),
        (
            f"{figures['bots']['share_of_units']:.1%}",
            f"of units to bots, {figures['bots']['share_of_crowd']:.1%} of the crowd",
        ),
    ]
    tiles = "".join(f'<div class="tile"><b>{escape(big)}</b><span>{escape(small)}</span></div>' for big, small in told)
    return f'<div class="tiles">{tiles}</div>'


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f} s"


def _checks(rushed: Rushed) -> str:
    rows = []
    for one in rushed.findings:
        mark = '<td class="ok">✓</td>' if one.ok else '<td class="no">✗</td>'
        found = "".join(f'<div class="found">{escape(example)}</div>' for example in one.examples)
        means = f"<td>{escape(one.means)}{found}</td>"
        counts = f'<td class="n">{one.looked_at:,}</td><td class="n">{one.count:,}</td>'
        rows.append(f"<tr>{mark}<td><code>{one.name}</code></td>{means}{counts}</tr>")
    if not rows:
        return "<section><h2>Checks</h2><p>The server's books were not checked.</p></section>"
    head = "<tr><th></th><th>invariant</th><th>what it means</th><th>looked at</th><th>found</th></tr>"
    about = "<p>The server's books, held against what each of the buyers saw.</p>"
    return f'<section><h2>Checks</h2>{about}<div class="scroll"><table>{head}{"".join(rows)}</table></div></section>'


def figure_of(chart: Chart) -> str:
    legend = "".join(
        f'<span><i style="background:var(--c{one.colour})"></i>{escape(one.name)}</span>' for one in chart.series
    )
    return (
        f"<figure><h2>{escape(chart.title)}</h2><p>{escape(chart.about)}</p>"
        f'<div class="legend">{legend}<span class="unit">{escape(chart.unit)}</span></div>{chart.svg}</figure>'
    )


def _tables(figures: dict[str, Any]) -> str:
    latencies = [[step, *(f"{value:,.1f}" for value in told.values())] for step, told in figures["latency_ms"].items()]
    endings = [[name.replace("_", " "), f"{count:,}"] for name, count in figures["endings"].items()]
    refusals = [[name.replace("_", " "), f"{count:,}"] for name, count in figures["refusals"].items()]
    return (
        '<div class="two">'
        + "".join(
            [
                table_of("Latency, ms", ["", "p50", "p90", "p99", "p99.9", "max"], latencies),
                table_of("How it ended", ["", "people"], endings),
                table_of("Purchases refused, by reason", ["", "times"], refusals),
            ]
        )
        + "</div>"
    )


def table_of(title: str, columns: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    lines = "".join(
        f"<tr><td>{escape(row[0])}</td>" + "".join(f'<td class="n">{escape(cell)}</td>' for cell in row[1:]) + "</tr>"
        for row in rows
    )
    return f'<section><h2>{title}</h2><div class="scroll"><table><tr>{head}</tr>{lines}</table></div></section>'


def _footer(rushed: Rushed) -> str:
    options, facts = rushed.options, machine([])
    told = [
        f"Holdfast {__version__}",
        f"engine {rushed.engine}" if rushed.engine else "a server that ran already",
        f"seed {options.seed}",
        f"{options.processes} process(es) of the crowd, {rushed.cpu_s:,.1f} s of CPU, {rushed.memory_mb:,.0f} MB",
        f"{facts['cores']} cores, {facts['cpu']}, Python {facts['python']}",
        datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    ]
    return f"<footer>{escape(' · '.join(told))}</footer>"
