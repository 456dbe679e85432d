"""`holdfast migrate`."""

import asyncio

import typer

from holdfast.cli.ledger import explained, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, print_json
from holdfast.engines import migrate_ledger

app = typer.Typer()


@app.command(
    "migrate",
    epilog=examples(
        "holdfast migrate",
        "HOLDFAST_DATABASE_URL=postgresql://user:password@host/name holdfast migrate",
    ),
)
def migrate(data: Data = None, as_json: AsJson = False) -> None:
    """Bring the database to the tables this version needs.

    Servers do this by themselves when they start; use it to upgrade before a roll-out. Safe to run twice and at once.
    """
    settings = settings_from(data)
    with explained(settings):
        before, after = asyncio.run(migrate_ledger(settings))
    if as_json:
        print_json({"before": before, "after": after})
    elif before == after:
        typer.echo(f"Nothing to do: {shown_url(settings)} is at revision {after}.")
    else:
        typer.echo(f"Upgraded {shown_url(settings)} from {before or 'nothing'} to revision {after}.")
