"""`holdfast migrate`."""

import asyncio

import typer

from holdfast.bootstrap.stores import migrate_ledger
from holdfast.cli.ledger import explained, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, print_json
from holdfast.runtime.log import set_up_logging

app = typer.Typer()


@app.command(
    "migrate",
    epilog=examples(
        "holdfast migrate",
        "HOLDFAST_DATABASE_URL=postgresql://user:password@host/name holdfast migrate",
    ),
)
def migrate(data: Data = None, as_json: AsJson = False) -> None:
    """Upgrade the database schema to this version.

    Servers do this when they start; use it to upgrade before a rollout. Safe to repeat and to run concurrently.
    """
    settings = settings_from(data)
    # What it waits for is of interest.
    set_up_logging("warning")
    with explained(settings):
        before, after = asyncio.run(migrate_ledger(settings))
    if as_json:
        print_json({"before": before, "after": after})
    elif before == after:
        typer.echo(f"Nothing to do: {shown_url(settings)} is at revision {after}.")
    else:
        typer.echo(f"Upgraded {shown_url(settings)} from {before or 'empty'} to revision {after}.")
