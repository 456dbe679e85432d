"""The HTML report of a rush."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from holdfast import __version__
from holdfast.lab.charts.html_page import charts, columns, footer, header, page, section, table, tiles
from holdfast.lab.load.machine import machine
from holdfast.lab.rush.buyers.source import Source
from holdfast.lab.rush.report.charts import charts_of
from holdfast.lab.rush.report.figures import figures_of
from holdfast.lab.rush.run import RushResult


def write_report(result: RushResult, path: Path) -> None:
    path.write_text(report(result), encoding="utf-8")


def report(result: RushResult) -> str:
    figures = figures_of(result)
    parts = [
        _header(result), tiles(_key_figures(figures)), _checks(result), _edge(result, figures["edge"]),
        charts(charts_of(result)), _tables(figures), footer(_facts(result)),
    ]  # fmt: skip
    return page(f"Rush: {result.options.scenario.name}", parts)


def _header(result: RushResult) -> str:
    failed = [finding.name for finding in result.findings if not finding.ok]
    kind, verdict = ("bad", f"FAIL: {', '.join(failed)}") if failed else ("good", "PASS")
    if not result.findings:
        kind, verdict = "none", "Not checked"
    return header(result.options.scenario.name, result.options.scenario.about, verdict, kind)


def _key_figures(figures: dict[str, Any]) -> list[tuple[str, str]]:
    latency = figures["latency_ms"].get("purchase", {})
    order = figures["fairness"].get("arrival_to_place") or figures["fairness"].get("asked_to_granted")
    bots = figures["bots"]
    return [
        (f"{figures['users']:,}", "buyers"),
        ("-" if figures["sold"] is None else f"{figures['sold']:,} of {figures['units']:,}", "units sold"),
        (_seconds(figures["sold_out_after_s"]), "until sold out"),
        (f"{figures['attempts_per_second_peak']:,.0f}/s", f"peak purchase attempts; {figures['attempts']:,} in total"),
        (f"{figures['requests_per_second_peak']:,.0f}/s", f"peak requests; {figures['requests']:,} in total"),
        (f"{latency.get('p50', 0):,.1f} ms", f"purchase latency, p50; p99 {latency.get('p99', 0):,.0f} ms"),
        ("-" if order is None else f"{order['in_order']:.1%}", "of pairs in arrival order"),
        (f"{bots['share_of_units']:.1%}", f"of units went to bots, {bots['share_of_crowd']:.1%} of the buyers"),
    ]


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f} s"


def _checks(result: RushResult) -> str:
    rows = []
    for one in result.findings:
        mark = '<td class="ok">✓</td>' if one.ok else '<td class="no">✗</td>'
        found = "".join(f'<div class="found">{escape(example)}</div>' for example in one.examples)
        means = f"<td>{escape(one.means)}{found}</td>"
        counts = f'<td class="n">{one.looked_at:,}</td><td class="n">{one.count:,}</td>'
        rows.append(f"<tr>{mark}<td><code>{one.name}</code></td>{means}{counts}</tr>")
    if not rows:
        return section("Checks", "<p>The ledger was not checked.</p>")
    head = '<tr><th></th><th>invariant</th><th>meaning</th><th class="n">checked</th><th class="n">violations</th></tr>'
    about = "<p>The server's ledger compared with what each buyer saw.</p>"
    return section("Checks", about, f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>')


def _edge(result: RushResult, edge: dict[str, Any] | None) -> str:
    """Buyers by outcome and requests by step, both split by source of the response."""
    if edge is None:
        return ""
    endings: dict[str, Counter[str]] = {}
    for record in result.records:
        endings.setdefault(record.ending, Counter())[record.answered_by] += 1
    by_ending = sorted(endings.items(), key=lambda item: -item[1].total())
    heads = [source.replace("_", " ") for source in Source]
    own = edge["origin_answered"]
    about = (
        f"The answer that ended a visit, and all answers. {edge['never_reached_origin']:,} buyers "
        f"({edge['share_never_reached_origin']:.1%}) got no answer from the server at all."
        + ("" if own is None else f" The server itself counted {own:,} requests, with those of the edge.")
    )
    return section(
        "Where buyers were answered",
        f"<p>{escape(about)}</p>",
        columns(
            table(
                ["outcome", *heads], [_row(ending, counts) for ending, counts in [*by_ending, ("all", edge["buyers"])]]
            ),
            table(
                ["request", *heads],
                [_row(step, counts) for step, counts in [*edge["requests_by_step"].items(), ("all", edge["requests"])]],
            ),
        ),
    )


def _row(name: str, counts: Mapping[str, int]) -> list[str]:
    return [name.replace("_", " "), *(f"{counts[source]:,}" for source in Source)]


def _tables(figures: dict[str, Any]) -> str:
    latencies = [
        [step, *(f"{value:,.1f}" for value in found.values())] for step, found in figures["latency_ms"].items()
    ]
    return columns(
        section("Latency, ms", table(["step", "p50", "p90", "p99", "p99.9", "max"], latencies)),
        section("Outcomes", table(["outcome", "buyers"], _counts(figures["endings"]))),
        section("Refused purchases", table(["reason", "count"], _counts(figures["refusals"]))),
    )


def _counts(counts: dict[str, int]) -> list[list[str]]:
    return [[name.replace("_", " "), f"{count:,}"] for name, count in counts.items()]


def _facts(result: RushResult) -> list[str]:
    options, facts = result.options, machine([])
    return [
        f"Holdfast {__version__}",
        f"engine {result.engine}" if result.engine else "existing server",
        f"seed {options.seed}",
        f"{options.processes} worker process(es), {result.cpu_s:,.1f} s CPU, {result.memory_mb:,.0f} MB",
        f"{facts['cores']} cores, {facts['cpu']}, Python {facts['python']}",
        datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    ]
