"""The report as one HTML page: nothing is loaded, nothing runs, and printing it makes a PDF."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from holdfast import __version__
from holdfast.cli.report.drawing import shares, timeline
from holdfast.cli.report.sections import (
    CONSERVATION,
    FAIRNESS,
    ProvenReport,
    duration,
    equation,
    funnel,
    headline,
    held,
    in_order,
    money,
    named,
    time_of,
)
from holdfast.domain.sale.sale import in_words
from holdfast.ledger.sales.report import Amount, SaleReport
from holdfast.verify.check import Finding


def page(proven: ProvenReport) -> str:
    style = files("holdfast.cli.report").joinpath("report.css").read_text()
    title = f"{proven.facts.sale.name}: report of the sale"
    return "\n".join(
        [
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<style>{style}</style></head><body><main>",
            *_parts(proven),
            "</main></body></html>\n",
        ]
    )


def _parts(proven: ProvenReport) -> Iterable[str]:
    facts = proven.facts
    yield _header(proven)
    yield _tiles(headline(facts))
    yield _section("Timeline", timeline(facts.timeline, facts.bar_seconds))
    yield _pair(_section("Funnel", _funnel(facts)), _section("Refusals by reason", _refusals(facts)))
    yield _section("Waits", _waits(facts))
    yield _section("Payments", _payments(facts))
    yield _section("Incidents", _incidents(facts))
    yield _section("Proof of conservation", _conservation(proven))
    yield _section("Proof of fairness", _fairness(proven))
    yield _section("All checks", _checks(proven.proof.findings))
    made = f"Made at {time_of(facts.at)} by holdfast report, version {__version__}"
    yield f"<footer>{made}, from one snapshot of the ledger.</footer>"


def _pair(*parts: str) -> str:
    return f'<div class="two">{"".join(parts)}</div>'


def _header(proven: ProvenReport) -> str:
    sale = proven.facts.sale
    ended_at = sale.closed_at or sale.ends_at
    until = "until it is closed" if ended_at is None else f"to {time_of(ended_at)}"
    window = f"{time_of(sale.opened_at or sale.starts_at)} {until}"
    about = f"Sale {sale.sale_id}, SKU {sale.sku_id}, {in_words(sale.price_amount, sale.currency)} each. Open {window}."
    kind = "" if proven.proof.ok else " bad"
    return (
        f"<header><div><h1>{escape(sale.name)}</h1><p>{escape(about)}</p></div>"
        f'<div class="verdict{kind}">{held(proven.proof.findings)}</div></header>'
    )


def _tiles(values: dict[str, str]) -> str:
    cells = "".join(
        f'<div class="tile"><b>{escape(v)}</b><span>{escape(name)}</span></div>' for name, v in values.items()
    )
    return f'<div class="tiles">{cells}</div>'


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    first, *others = columns
    head = f"<th>{escape(first)}</th>" + "".join(f'<th class="n">{escape(column)}</th>' for column in others)
    lines = "".join(
        f"<tr><td>{escape(row[0])}</td>" + "".join(f'<td class="n">{escape(cell)}</td>' for cell in row[1:]) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{lines}</table>"


def _funnel(facts: SaleReport) -> str:
    lapsed = [f"{facts.reservations[status].units:,} {status}" for status in _RETURNED if status in facts.reservations]
    returned = f"<p>Units that came back and could be sold again: {', '.join(lapsed)}.</p>" if lapsed else ""
    return shares([(step.name, step.number) for step in funnel(facts)]) + returned


_RETURNED = ("expired", "cancelled", "failed")


def _refusals(facts: SaleReport) -> str:
    about = "<p>Counted for the SKU, so an earlier sale of the same SKU counts too.</p>" if facts.refusals else ""
    return shares(in_order(facts.refusals), "var(--orange)") + about


def _waits(facts: SaleReport) -> str:
    if not facts.waits:
        return "<p>Nobody waited.</p>"
    rows = [
        (name.capitalize(), f"{w.number:,}", *(duration(ms) for ms in (w.p50_ms, w.p95_ms, w.p99_ms, w.max_ms)))
        for name, w in facts.waits.items()
    ]
    return _table(["", "people", "median", "95 %", "99 %", "longest"], rows)


def _payments(facts: SaleReport) -> str:
    currency = facts.sale.currency
    rows = [
        *(("Orders, " + status, each) for status, each in facts.orders.items()),
        *(("Payments, " + state, each) for state, each in facts.payments.items()),
        *(("Refunds, " + state, each) for state, each in facts.refunds.items()),
    ]
    if not rows:
        return "<p>No payments.</p>"
    declines = ", ".join(f"{number:,} {reason}" for reason, number in facts.declines.items())
    shown = f"<p>Declined: {escape(declines)}.</p>" if declines else ""
    return _table(["", "number", "amount"], [_money(name, each, currency) for name, each in rows]) + shown


def _money(name: str, each: Amount, currency: str) -> tuple[str, str, str]:
    return name, f"{each.number:,}", money(each.amounts, currency)


def _incidents(facts: SaleReport) -> str:
    if not facts.incidents:
        return "<p>None: nothing was paused, parked, missing or inconsistent, and everything answered.</p>"
    lines = "".join(
        f"<tr><td>{time_of(each.at)}</td><td>{time_of(each.ended_at)}</td><td>{escape(each.kind)}</td><td>{escape(each.what)}</td></tr>"
        for each in facts.incidents
    )
    return f"<table><tr><th>at</th><th>until</th><th>kind</th><th>what</th></tr>{lines}</table>"


def _conservation(proven: ProvenReport) -> str:
    checks = named(proven.proof, CONSERVATION)
    return (
        f'<p class="equation">{equation(proven.facts)}</p>'
        "<p>The counts of the pool were compared with its reservations and recomputed from all events: "
        f"{held(checks)}.</p>"
        f"{_checks(checks)}"
    )


def _fairness(proven: ProvenReport) -> str:
    line = proven.facts.line
    if line is None:
        return "<p>The sale had no waiting room: requests were decided in the order of their arrival in each batch.</p>"
    checks = named(proven.proof, FAIRNESS)
    how = "in the order of arrival" if line.mode == "fifo" else "in the order that was drawn"
    counts = f"{line.joined:,} people joined, {line.called:,} were called, {how}; {line.left:,} left"
    about = f"<p>{counts}: {held(checks)}.</p>"
    if line.entrants is not None:
        about += (
            f"<p>Draw over {line.entrants:,} entries; seed hash published beforehand "
            f"<code>{escape(line.seed_hash)}</code>, digest of the list <code>{escape(line.digest or '-')}</code>. "
            "Anyone can repeat it: "
            f"<code>holdfast lottery verify …/v1/sales/{escape(proven.facts.sale.sale_id)}/now --ticket FILE</code></p>"
        )
    return about + _checks(checks)


def _checks(findings: Sequence[Finding]) -> str:
    lines = "".join(
        f'<tr><td class="{"ok" if f.ok else "no"}">{"✓" if f.ok else "✗"}</td><td><code>{escape(f.name)}</code></td>'
        f'<td>{escape(f.means)}</td><td class="n">{f.looked_at:,}</td><td class="n">{f.count:,}</td></tr>'
        for f in findings
    )
    head = '<tr><th></th><th>check</th><th>what holds</th><th class="n">checked</th><th class="n">found</th></tr>'
    return f"<table>{head}{lines}</table>"
