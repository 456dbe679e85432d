"""The report for a terminal, and as JSON."""

from typing import Any

import typer
from msgspec import to_builtins

from holdfast.cli.output import print_facts, print_table
from holdfast.cli.report.sections import ProvenReport, duration, equation, funnel, headline, held, in_order, time_of
from holdfast.runtime.times import rfc3339


def body_of(proven: ProvenReport) -> dict[str, Any]:
    shown: dict[str, Any] = _with_times(to_builtins(proven.facts))
    shown["sale_id"] = proven.facts.sale.sale_id
    return shown | {"funnel": to_builtins(funnel(proven.facts)), "verify": proven.proof.body()}


def _with_times(value: Any) -> Any:
    """Times as the API writes them. In the ledger they are milliseconds, in fields called `at` or `…_at`."""
    if isinstance(value, list):
        return [_with_times(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: rfc3339(one) if isinstance(one, int) and (name == "at" or name.endswith("_at")) else _with_times(one)
        for name, one in value.items()
    }


def print_summary(proven: ProvenReport) -> None:
    facts = proven.facts
    print_facts({"sale": f"{facts.sale.name} ({facts.sale.sale_id})"} | headline(facts) | {"stock": equation(facts)})
    for title, rows in (
        ("Funnel", [(step.name, step.number) for step in funnel(facts)]),
        ("Refusals by reason", in_order(facts.refusals)),
    ):
        if rows:
            typer.echo()
            print_table([title, "number"], rows)
    if facts.waits:
        typer.echo()
        waits = facts.waits.items()
        print_table(["Waits", "median", "99 %"], [(name, duration(w.p50_ms), duration(w.p99_ms)) for name, w in waits])
    if facts.incidents:
        typer.echo()
        print_table(
            ["at", "until", "incident", "what"],
            [(time_of(i.at), time_of(i.ended_at, only_time=True), i.kind, i.what) for i in facts.incidents],
            folded="what",
        )
    typer.echo()
    typer.echo(f"{'PROVEN' if proven.proof.ok else 'REFUTED'}: {held(proven.proof.findings)}.")
