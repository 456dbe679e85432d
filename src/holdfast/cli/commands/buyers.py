"""`holdfast buyers`."""

from typing import Annotated

import typer

from holdfast.audit.buyer_export import buyer_rows
from holdfast.cli.ledger import is_new, run_engine, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, fail, print_json
from holdfast.gate.engine import Engine
from holdfast.ledger.engine.database import Database

app = typer.Typer(
    help="Export everything that is stored about a buyer.",
    no_args_is_help=True,
    epilog=examples("holdfast buyers export ada > ada.json"),
)


@app.callback()
def _buyers() -> None:
    """Keeps `export` a command of its own."""


@app.command("export", epilog=examples("holdfast buyers export ada > ada.json"))
def export(
    buyer_id: Annotated[str, typer.Argument(help="The buyer ID.", metavar="BUYER")],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Print everything the ledger has about a buyer as one JSON document."""
    del as_json  # It is JSON in any case.
    settings = settings_from(data)

    async def read(database: Database, engine: Engine) -> dict[str, object]:
        await engine.catch_up(None)
        return dict(await database.read(lambda c: buyer_rows(c, buyer_id)))

    found = {} if is_new(settings) else run_engine(settings, read)
    if not found:
        fail(
            f"there is nothing about this buyer in {shown_url(settings)}",
            "Check the ID: it is the `sub` of their token.",
        )
    print_json({"buyer_id": buyer_id, "data": found})
