"""`holdfast reconcile`."""

import typer

from holdfast.bootstrap import open_cashier
from holdfast.cli.ledger import is_new, run, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, print_json, print_table
from holdfast.engines import open_engine
from holdfast.http.money_schemas import payment_report_body
from holdfast.http.schemas import reconciliation_body
from holdfast.ledger.database import Database
from holdfast.log import set_up_logging
from holdfast.settings import Settings
from holdfast.settlement.payment_report import PaymentReport
from holdfast.settlement.reconcile import PoolReport

app = typer.Typer()

_ADVICE = {
    "payment_without_order": "The settler makes it an order or a refund.",
    "payment_left_open": "The settler asks the provider, and lets it go.",
    "order_without_payment": "It is parked: retry to ask again; drop it if it was paid outside, or is to be refunded.",
    "oversold": "Find the units, then raise deliverable_units; or set the sale's oversell_policy to cancel_last.",
    "provider_not_configured": "Run this where the provider is configured.",
    "settlement_stuck": "Is a worker running, and the provider reachable?",
    "provider_disagrees": "If it is not being mended: compare with the provider's own records.",
    "provider_not_asked": "The provider cannot be reached; run this again later.",
}


@app.command("reconcile", epilog=examples("holdfast reconcile", "holdfast reconcile --json | jq .payments.findings"))
def reconcile(data: Data = None, as_json: AsJson = False) -> None:
    """Check stock and money now, and mend what can be mended.

    Every pool is counted, gate and ledger are compared, every charge must have its order or its refund, and the payment
    providers are asked about the payments of the last hour. Exits with 1 if anything was found or is parked.
    """
    settings = settings_from(data)
    if is_new(settings):
        typer.echo(f"There is nothing in {shown_url(settings)} yet.")
        return
    set_up_logging("error")
    pools, money = run(settings, lambda database: _look(settings, database))
    body = reconciliation_body(pools) | {"payments": payment_report_body(money)}
    if as_json:
        print_json(body)
    else:
        _print(pools, money)
    if not body["ok"] or not money.is_ok:
        raise typer.Exit(1)


async def _look(settings: Settings, database: Database) -> tuple[list[PoolReport], PaymentReport]:
    async with open_engine(settings, database) as engine, open_cashier(settings, database, engine) as cashier:
        pools = await engine.reconciler.pass_once(thorough=True)
        return list(pools.values()), await cashier.audit.look(thorough=True)


def _print(pools: list[PoolReport], money: PaymentReport) -> None:
    odd = [report for report in pools if report.finding is not None]
    typer.echo(f"{len(pools)} pools checked, {len(odd)} at odds.")
    if odd:
        print_table(["sku id", "finding"], [(report.sku_id, report.finding) for report in odd])
    typer.echo(f"Payments checked, {len(money.findings)} findings.")
    if money.findings:
        rows = [
            (f.finding, f.subject, f.detail, "being mended" if f.is_mended else "needs you") for f in money.findings
        ]
        print_table(["finding", "subject", "detail", "state"], rows, folded="detail")
        for finding in sorted({f.finding for f in money.findings}):
            typer.echo(f"{finding}: {_ADVICE[finding]}")
    for kind, count in money.parked.items():
        if count:
            plural = "deliveries" if kind == "delivery" else f"{kind}s"
            typer.echo(f"{count} parked {plural} wait for you: holdfast parked list, then retry or drop.")
