"""`holdfast parked`."""

import getpass
from typing import Annotated

import typer
from msgspec import to_builtins

from holdfast.cli.approval import approved
from holdfast.cli.ledger import is_new, shown_url
from holdfast.cli.money import After, Limit, run_payments
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, fail, print_either, print_json, print_table
from holdfast.cli.times import moment
from holdfast.errors import SettingsError
from holdfast.http.contract.schemas.money import ParkedOut
from holdfast.settlement.parked import KINDS, DropRefused, NotParked

app = typer.Typer(
    help="List, retry or drop items that need attention.",
    no_args_is_help=True,
    epilog=examples("holdfast parked list", "holdfast parked retry --all settlement"),
)

_KIND = f"One of {', '.join(KINDS)}."
ParkedId = Annotated[str, typer.Argument(help="As shown by holdfast parked list.", metavar="ID")]


def _kind(text: str | None) -> str | None:
    if text not in (None, *KINDS):
        raise typer.BadParameter(f"must be one of {', '.join(KINDS)}")
    return text


Kind = Annotated[str | None, typer.Option("--kind", help=_KIND, metavar="KIND", callback=_kind)]
All = Annotated[str | None, typer.Option("--all", help=f"All items of a kind. {_KIND}", metavar="KIND", callback=_kind)]


@app.command("list", epilog=examples("holdfast parked list", "holdfast parked list --kind refund --json"))
def list_all(
    kind: Kind = None, limit: Limit = 20, after: After = None, data: Data = None, as_json: AsJson = False
) -> None:
    """List parked items with their reason. Exits with 1 if there are any."""
    settings = settings_from(data)
    found, has_more = (
        ([], False)
        if is_new(settings)
        else run_payments(settings, lambda opened: opened.parked.items(kind=kind, limit=limit, starting_after=after))
    )
    if as_json:
        print_json({"data": [to_builtins(ParkedOut.of(item)) for item in found], "has_more": has_more})
    elif found:
        rows = [(item.parked_id, item.attempts, moment(item.created_at), item.reason) for item in found]
        print_table(["parked id", "attempts", "since (UTC)", "reason"], rows, folded="reason")
        if has_more:
            typer.echo(f"More results: --after {found[-1].parked_id}")
    else:
        typer.echo("No parked items.")
    if found:
        raise typer.Exit(1)


@app.command(
    "retry", epilog=examples("holdfast parked retry settlement:rsv_0192…", "holdfast parked retry --all refund")
)
def retry(
    parked_id: Annotated[str | None, typer.Argument(help="As shown by holdfast parked list.", metavar="ID")] = None,
    every: All = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Retry parked items from where they stopped. Safe to repeat."""
    if (parked_id is None) == (every is None):
        raise SettingsError("name what to retry: an ID, or --all KIND")
    retried = 1
    if every is not None:
        kind = every
        retried = run_payments(settings_from(data), lambda payments: payments.parked.retry_all(kind))
    elif parked_id is not None:
        _act(data, parked_id, is_drop=False)
    print_either(as_json, {"retried": retried}, f"{retried} scheduled for retry.")


@app.command("drop", epilog=examples("holdfast parked drop settlement:rsv_0192…"))
def drop(parked_id: ParkedId, data: Data = None, as_json: AsJson = False) -> None:
    """Drop a parked item, if no money is outstanding.

    The units of a settlement return to stock; an order without payment stays. If the sale of a settlement is gone,
    money that was taken is refunded.
    """
    _act(data, parked_id, is_drop=True)
    print_either(as_json, {"dropped": parked_id}, f"Dropped {parked_id}.")


def _act(data: Data, parked_id: str, *, is_drop: bool) -> None:
    settings = settings_from(data)
    if is_new(settings):
        fail(f"{shown_url(settings)} is empty")
    try:
        if is_drop:
            with approved(settings, "drop_parked", parked_id):
                run_payments(settings, lambda payments: payments.parked.drop(parked_id, getpass.getuser()))
        else:
            run_payments(settings, lambda payments: payments.parked.retry(parked_id))
    except NotParked:
        fail(f"there is no parked item {parked_id!r}", "List them with: holdfast parked list")
    except DropRefused as exc:
        fail(str(exc))
