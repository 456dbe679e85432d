"""`holdfast serve`."""

import shlex
from functools import partial
from typing import Annotated

import typer

from holdfast.access.cell_stores import parse_cells
from holdfast.cli.ledger import explained, shown_url
from holdfast.cli.options import Data, hide_secrets, settings_from
from holdfast.cli.output import examples
from holdfast.http.server.address import url_of
from holdfast.settings import Settings

app = typer.Typer()


@app.command(
    "serve",
    epilog=examples(
        "holdfast serve",
        "holdfast serve --host 0.0.0.0 --port 80 --data /var/lib/holdfast --workers 4",
        "HOLDFAST_DATABASE_URL=postgresql://user:password@host/name \\",
        "  holdfast serve --workers 4",
    ),
)
def serve(
    host: Annotated[str, typer.Option(help="Host name or address to listen on.", metavar="HOST")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535, metavar="PORT")] = 8000,
    workers: Annotated[
        int, typer.Option(help="Processes that serve; on SQLite one more decides for them.", min=1, max=64, metavar="N")
    ] = 1,
    data: Data = None,
    background: Annotated[
        bool, typer.Option("--background/--no-background", help="Run the background tasks in this process.")
    ] = True,
) -> None:
    """Serve the API and run the background tasks.

    Without settings it uses a SQLite file in ./data. Set HOLDFAST_DATABASE_URL=postgresql://… to run several servers
    on one PostgreSQL, and also HOLDFAST_REDIS_URL=redis://… to decide in Redis or Valkey. SIGTERM and Ctrl-C finish
    accepted requests, then stop.
    """
    from holdfast.http.server import serving  # noqa: PLC0415 - `serve --help` need not wait for the web server

    settings = settings_from(data)
    greet = partial(_greet, settings, url_of(host, port))
    with explained(settings):
        serving.serve(settings, host, port, greet, workers=workers, background=background)


def _greet(settings: Settings, where: str, sku_id: str | None) -> None:
    given = settings.service_key.get_secret_value()
    key = "$HOLDFAST_SERVICE_KEY" if given else f"$(cat {shlex.quote(str(settings.data / 'service_key'))})"
    is_empty = sku_id is None and not settings.cells
    lines = [
        f"Holdfast is listening on {where}",
        f"API:       {where}/docs",
        f"Database:  {shown_url(settings)}",
        *([f"Gate:      {hide_secrets(settings.redis_url)}"] if settings.has_redis else []),
        *([f"Cells:     {', '.join(parse_cells(settings.cells))}"] if settings.cells else []),
        *([f"First:     holdfast pools create demo --units 500{_data_option(settings)}"] if is_empty else []),
        f'Try:       curl -H "Authorization: Bearer {key}" \\',
        f"             {where}/v1/inventory/{sku_id or 'demo'}/available",
    ]
    typer.echo("\n".join(lines), err=True)


def _data_option(settings: Settings) -> str:
    is_custom = settings.is_embedded and settings.data != Settings.model_fields["data"].default
    return f" --data {shlex.quote(str(settings.data))}" if is_custom else ""
