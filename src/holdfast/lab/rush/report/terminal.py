"""The result of a rush on a terminal."""

from pathlib import Path
from typing import Any

import typer

from holdfast.cli.output import complain, print_table
from holdfast.lab.rush.report.figures import figures_of
from holdfast.lab.rush.run import RushResult


def print_result(result: RushResult, report: Path | None) -> None:
    figures = figures_of(result)
    rows = [("+" if one.ok else "x", one.name, one.looked_at, one.count, one.means) for one in result.findings]
    if rows:
        print_table(["", "check", "checked", "failures", "what it means"], rows, folded="what it means")
    for finding in result.findings:
        for example in finding.examples:
            complain(f"{finding.name}: {example}")
    latency = figures["latency_ms"].get("purchase", {"p50": 0, "p99": 0})
    typer.echo(
        f"\n{figures['users']:,} buyers, {figures['attempts']:,} attempts, {figures['requests']:,} requests in "
        f"{figures['seconds']:,.1f} s (peaks {figures['attempts_per_second_peak']:,.0f} attempts/s, "
        f"{figures['requests_per_second_peak']:,.0f} requests/s); purchases p50 {latency['p50']:,.1f} ms, "
        f"p99 {latency['p99']:,.1f} ms; seed {result.options.seed}"
    )
    if figures["edge"] is not None:
        typer.echo(_where(figures["edge"]))
    if report is not None:
        typer.echo(f"Report: {report}")
    typer.echo(verdict(result))


def verdict(result: RushResult) -> str:
    if not result.findings:
        return "Not checked."
    failed = [finding.name for finding in result.findings if not finding.ok]
    return (
        f"FAIL: {', '.join(failed)}."
        if failed
        else f"PASS: {len(result.findings)} of {len(result.findings)} checks hold."
    )


def _where(edge: dict[str, Any]) -> str:
    buyers, requests = edge["buyers"], edge["requests"]
    return (
        f"Last answers: {buyers['edge_cache']:,} buyers from the edge's cache, {buyers['edge_refusal']:,} refused by "
        f"the edge, {buyers['origin']:,} by the server; {edge['never_reached_origin']:,} never reached the server.\n"
        f"Requests: {requests['edge_cache']:,} from the cache, {requests['edge_refusal']:,} refused by the edge, "
        f"{requests['origin']:,} by the server, {requests['nobody']:,} unanswered."
    )
