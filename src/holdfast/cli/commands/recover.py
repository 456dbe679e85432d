"""`holdfast recover`."""

import getpass
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import to_builtins

from holdfast.bootstrap.payments import open_unknown_charges
from holdfast.bootstrap.recovery import Decision, Missing, decide, find_missing
from holdfast.bootstrap.stores import open_engine
from holdfast.cli.ledger import is_new, run, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, print_json, print_table
from holdfast.ledger.engine.database import Database
from holdfast.runtime.log import set_up_logging
from holdfast.settings import Settings

app = typer.Typer()

Import = Annotated[bool, typer.Option("--import", help="Restore what servers remember, then continue.")]
AcceptLoss = Annotated[bool, typer.Option("--accept-loss", help="Continue without restoring anything.")]
From = Annotated[list[Path] | None, typer.Option("--from", metavar="FILE", help="An export of another server.")]
FromReceipts = Annotated[
    list[Path] | None,
    typer.Option("--receipts", metavar="FILE", exists=True, dir_okay=False, help="Buyers' receipts, one per line."),
]
SkipProviders = Annotated[bool, typer.Option("--skip-providers", help="Do not ask payment providers for charges.")]
By = Annotated[str | None, typer.Option(metavar="NAME", help="Who decided, for the record.  [default: your login]")]


@app.command("recover", epilog=examples("holdfast recover", "holdfast recover --import --by ada"))
def recover(
    importing: Import = False,
    accept_loss: AcceptLoss = False,
    exports: From = None,
    receipts: FromReceipts = None,
    by: By = None,
    skip_providers: SkipProviders = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Recover from a ledger that went back in time.

    After a restored backup or a promoted replica that lagged, servers refuse to write. Without options this changes
    nothing and exits with 1 if anything is missing. Servers serve again once --import or --accept-loss was given; who
    decided and what was given up is recorded in the ledger. Either way, charges that the payment providers have and the
    ledger lacks come back, and the settler turns each into an order or a refund.
    """
    if importing and accept_loss:
        raise typer.BadParameter("choose --import or --accept-loss")
    settings = settings_from(data)
    set_up_logging("error")
    if is_new(settings):
        typer.echo(f"{shown_url(settings)} is empty.")
        return
    name = by or getpass.getuser()
    decides = importing or accept_loss
    files = (exports or [], receipts or [])
    missing, decision = run(
        settings,
        lambda db: _recover(settings, db, files, name if decides else None, importing, skip_providers),
        recovering=True,
    )
    if as_json:
        print_json(_body(missing, decision))
    else:
        _print(missing, decision)
    if missing.findings and decision is None:
        raise typer.Exit(1)


async def _recover(
    settings: Settings,
    database: Database,
    files: tuple[list[Path], list[Path]],
    by: str | None,
    importing: bool,
    skip_providers: bool,
) -> tuple[Missing, Decision | None]:
    async with open_engine(settings, database) as engine, open_unknown_charges(settings, database) as opened:
        charges = None if skip_providers else opened
        missing = await find_missing(settings, database, engine, charges, *files)
        if not missing.findings or by is None:
            return missing, None
        return missing, await decide(database, engine.evidence, missing, charges, by, restoring=importing)


def _body(missing: Missing, decision: Decision | None) -> dict[str, Any]:
    return {
        "ok": not missing.findings or decision is not None,
        "missing": to_builtins(missing),
        "decision": None if decision is None else to_builtins(decision),
    }


def _print(missing: Missing, decision: Decision | None) -> None:
    _print_missing(missing, decision)
    left = [unknown.facts for unknown in missing.charges_of_others]
    if left:
        title = "Charges left to another ledger. If no other uses this account, look into them"
        print_table(list(left[0]), [tuple(facts.values()) for facts in left], title=title)


def _print_missing(missing: Missing, decision: Decision | None) -> None:
    if not missing.findings:
        typer.echo("The ledger is complete.")
        return
    for finding in missing.findings:
        typer.echo(f"The ledger went back: {finding}.")
    if decision is not None:
        typer.echo(f"Restored: {len(decision.restored)}. Given up: {len(decision.given_up)}. Servers serve again.")
        return
    rows = [(r.reservation_id, r.sku_id, r.owner_id, r.quantity, r.status) for r in _reservations(missing)]
    if rows:
        print_table(["reservation", "sku id", "owner", "units", "status"], rows, title="Known to be missing")
    else:
        typer.echo("No record of the missing data was found.")
    charges = [(unknown.provider, unknown.listed.charge, unknown.listed.payment.state) for unknown in missing.charges]
    taken = [(provider, charge.key, charge.buyer_id, state) for provider, charge, state in charges]
    if taken:
        print_table(["provider", "charge", "buyer", "state"], taken, title="Charges that the ledger lacks")
    typer.echo("To continue: holdfast recover --import, or holdfast recover --accept-loss.")


def _reservations(missing: Missing) -> list[Any]:
    return [each.reservation for each in missing.reservations]
