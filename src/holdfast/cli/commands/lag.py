"""`holdfast lag`."""

import typer
from msgspec import to_builtins

from holdfast.bootstrap.lag import LagReader, Lags
from holdfast.cli.ledger import is_new, run_engine, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, print_json, print_table
from holdfast.gate.engine import Engine
from holdfast.http.contract.schemas.operate import LagsOut
from holdfast.ledger.engine.database import Database

app = typer.Typer()

_WHAT = {
    "journal": "decisions in Redis that the ledger does not have yet",
    "settlement": "reservations whose payment is not settled",
    "webhooks": "events and deliveries that were not sent",
    "sweeper": "holds past their deadline whose units are not back",
    "streams": "events that were not published to Kafka",
}


@app.command("lag", epilog=examples("holdfast lag", "holdfast lag --json | jq .settlement"))
def lag(data: Data = None, as_json: AsJson = False) -> None:
    """Show how far background work is behind.

    Payments, webhooks, expired holds, the journal of Redis and Kafka. Reads the stores, so it is true also where no
    worker runs.
    """
    settings = settings_from(data)
    if is_new(settings):
        typer.echo(f"{shown_url(settings)} is empty.")
        return

    async def read(database: Database, engine: Engine) -> Lags:
        reader = LagReader(database, engine, has_kafka=settings.has_kafka, has_intents=settings.has_intents)
        return await reader.read()

    body = to_builtins(LagsOut.of(run_engine(settings, read)))
    if as_json:
        print_json(body)
    else:
        rows = [(name, body[name]["items"], f"{body[name]['seconds']:,.1f} s", what) for name, what in _WHAT.items()]
        print_table(["work", "behind", "oldest", "what"], rows)
