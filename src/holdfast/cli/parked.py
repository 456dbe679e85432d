"""`holdfast parked`."""

from typing import Annotated

import typer

from holdfast.cli.ledger import is_new, shown_url
from holdfast.cli.money import After, Limit, run_cashier
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, complain, examples, print_json, print_table
from holdfast.cli.times import moment
from holdfast.errors import SettingsError
from holdfast.http.money_schemas import parked_body
from holdfast.settlement.parked import KINDS, DropRefused, NotParked

app = typer.Typer(
    help="What waits for a person: look, try again, or give up.",
    no_args_is_help=True,
    epilog=examples("holdfast parked list", "holdfast parked retry --all settlement"),
)

_KIND = f"One of {', '.join(KINDS)}."
ParkedId = Annotated[str, typer.Argument(help="As listed: settlement:rsv_0192…", metavar="ID")]


def _kind(text: str | None) -> str | None:
    if text not in (None, *KINDS):
        raise typer.BadParameter(f"must be one of {', '.join(KINDS)}")
    return text


Kind = Annotated[str | None, typer.Option("--kind", help=_KIND, metavar="KIND", callback=_kind)]
All = Annotated[
    str | None, typer.Option("--all", help=f"Everything of a kind. {_KIND}", metavar="KIND", callback=_kind)
]


@app.command("list", epilog=examples("holdfast parked list", "holdfast parked list --kind refund --json"))
def list_all(
    kind: Kind = None, limit: Limit = 20, after: After = None, data: Data = None, as_json: AsJson = False
) -> None:
    """List what waits for a person, and why. Exits with 1 if there is anything."""
    settings = settings_from(data)
    found, has_more = (
        ([], False)
        if is_new(settings)
        else run_cashier(settings, lambda cashier: cashier.parked.items(kind=kind, limit=limit, starting_after=after))
    )
    if as_json:
        print_json({"data": [parked_body(item) for item in found], "has_more": has_more})
    elif found:
        rows = [(item.parked_id, item.attempts, moment(item.created_at), item.reason) for item in found]
        print_table(["parked id", "attempts", "since (UTC)", "why"], rows, folded="why")
        if has_more:
            typer.echo(f"There are more: --after {found[-1].parked_id}")
    else:
        typer.echo("Nothing is parked.")
    if found:
        raise typer.Exit(1)


@app.command(
    "retry", epilog=examples("holdfast parked retry settlement:rsv_0192…", "holdfast parked retry --all refund")
)
def retry(
    parked_id: Annotated[str | None, typer.Argument(help="As listed: settlement:rsv_0192…", metavar="[ID]")] = None,
    every: All = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Try it again from where it stands: a server or worker takes it up. Safe at any time."""
    if (parked_id is None) == (every is None):
        raise SettingsError("name what to retry: an id, or --all and a kind")
    retried = 1
    if every is not None:
        kind = every
        retried = run_cashier(settings_from(data), lambda cashier: cashier.parked.retry_all(kind))
    elif parked_id is not None:
        _act(data, parked_id, is_drop=False)
    print_json({"retried": retried}) if as_json else typer.echo(f"{retried} to be tried again.")


@app.command("drop", epilog=examples("holdfast parked drop settlement:rsv_0192…"))
def drop(parked_id: ParkedId, data: Data = None, as_json: AsJson = False) -> None:
    """Give it up, if no money is out. The units of a settlement return; an order without payment stands."""
    _act(data, parked_id, is_drop=True)
    print_json({"dropped": parked_id}) if as_json else typer.echo(f"{parked_id} is given up.")


def _act(data: Data, parked_id: str, *, is_drop: bool) -> None:
    settings = settings_from(data)
    if is_new(settings):
        complain(f"there is nothing in {shown_url(settings)} yet")
        raise typer.Exit(1)
    try:
        run_cashier(
            settings,
            lambda cashier: cashier.parked.drop(parked_id) if is_drop else cashier.parked.retry(parked_id),
        )
    except NotParked as exc:
        complain(f"nothing is parked as {parked_id!r}", "List what is with: holdfast parked list")
        raise typer.Exit(1) from exc
    except DropRefused as exc:
        complain(str(exc))
        raise typer.Exit(1) from exc
