"""`holdfast reconcile`."""

from functools import partial

import typer
from msgspec import to_builtins

from holdfast.bootstrap.payments import open_payment_services
from holdfast.cli.ledger import is_new, run_engine, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, print_json, print_table
from holdfast.gate.audit import PoolReport
from holdfast.gate.engine import Engine
from holdfast.http.contract.schemas.inventory import ReconciliationOut
from holdfast.http.contract.schemas.money import PaymentReportOut
from holdfast.ledger.engine.database import Database
from holdfast.settings import Settings
from holdfast.settlement.payment_report import PaymentReport

app = typer.Typer()

_ADVICE = {
    "payment_without_order": "The settler turns it into an order or a refund.",
    "payment_left_open": "The settler checks with the provider and voids it.",
    "order_without_payment": "It is parked: retry it, or drop it if it was paid externally or will be refunded.",
    "oversold": "Source the units and raise deliverable_units, or set the sale's oversell_policy to cancel_last; "
    "above review_above_percent somebody has to approve that (docs/SETTLEMENT.md).",
    "provider_not_configured": "Run this where the provider is configured.",
    "settlement_stuck": "Check that a worker is running and the provider is reachable.",
    "provider_disagrees": "If it is not being repaired, compare with the provider's records.",
    "provider_not_asked": "The provider is unreachable; run this again later.",
}


@app.command("reconcile", epilog=examples("holdfast reconcile", "holdfast reconcile --json | jq .payments.findings"))
def reconcile(data: Data = None, as_json: AsJson = False) -> None:
    """Check stock and payments now and repair what is safe.

    Counts every pool, compares gate and ledger, checks that every charge has an order or a refund, and asks the payment
    providers about the payments of the last hour. Exits with 1 if there are findings or parked items.
    """
    settings = settings_from(data)
    if is_new(settings):
        typer.echo(f"{shown_url(settings)} is empty.")
        return
    pools, money = run_engine(settings, partial(_look, settings))
    body = to_builtins(ReconciliationOut.of(pools)) | {"payments": to_builtins(PaymentReportOut.of(money))}
    if as_json:
        print_json(body)
    else:
        _print(pools, money)
    if not body["ok"] or not money.is_ok:
        raise typer.Exit(1)


async def _look(settings: Settings, database: Database, engine: Engine) -> tuple[list[PoolReport], PaymentReport]:
    async with open_payment_services(settings, database, engine) as payments:
        pools = await engine.reconciler.pass_once(thorough=True)
        return list(pools.values()), await payments.audit.look(thorough=True)


def _print(pools: list[PoolReport], money: PaymentReport) -> None:
    inconsistent = [report for report in pools if report.finding is not None]
    typer.echo(f"Pools: {len(pools)} checked, {len(inconsistent)} inconsistent.")
    if inconsistent:
        print_table(["sku id", "finding"], [(report.sku_id, report.finding) for report in inconsistent])
    typer.echo(f"Payments: {len(money.findings)} {'finding' if len(money.findings) == 1 else 'findings'}.")
    if money.findings:
        rows = [
            (f.finding, f.subject, f.detail, "being repaired" if f.is_repaired else "needs attention")
            for f in money.findings
        ]
        print_table(["finding", "subject", "detail", "state"], rows, folded="detail")
        for finding in sorted({f.finding for f in money.findings}):
            typer.echo(f"{finding}: {_ADVICE[finding]}")
    for kind, count in money.parked.items():
        if count:
            plural = {"delivery": "deliveries", "journal": "journal entries"}.get(kind, f"{kind}s")
            typer.echo(f"{count} parked {plural} need attention: holdfast parked list, then retry or drop.")
