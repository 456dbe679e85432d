"""`holdfast serve`."""

import shlex
from typing import Annotated

import typer

from holdfast.cli.ledger import explained, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import examples
from holdfast.settings import Settings

app = typer.Typer()


@app.command(
    "serve",
    epilog=examples(
        "holdfast serve",
        "holdfast serve --host 0.0.0.0 --port 80 --data /var/lib/holdfast",
        "HOLDFAST_DATABASE_URL=postgresql://user:password@host/name \\",
        "  holdfast serve --workers 4",
    ),
)
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.", metavar="HOST")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535, metavar="PORT")] = 8000,
    workers: Annotated[
        int, typer.Option(help="Server processes; more than one needs PostgreSQL.", min=1, max=64, metavar="N")
    ] = 1,
    data: Data = None,
    background: Annotated[
        bool, typer.Option("--background/--no-background", help="Also return overdue units and prune old records.")
    ] = True,
) -> None:
    """Serve the API, and do the background work.

    Without any setting this runs on a SQLite file in ./data. Set HOLDFAST_DATABASE_URL=postgresql://… to run several
    servers on one PostgreSQL. SIGTERM and Ctrl-C finish what was accepted, then stop.
    """
    from holdfast.http import server  # noqa: PLC0415 - `serve --help` need not wait for the web server

    settings = settings_from(data)
    _greet(settings, host, port)
    with explained(settings):
        server.serve(settings, host, port, workers=workers, background=background)


def _greet(settings: Settings, host: str, port: int) -> None:
    where = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    given = settings.service_key.get_secret_value()
    settings.service_key_text()  # Made now if there is none, so that the command below works.
    key = "$HOLDFAST_SERVICE_KEY" if given else f"$(cat {shlex.quote(str(settings.data / 'service_key'))})"
    lines = [
        f"Starting Holdfast on {where}   (the API is described at {where}/docs)",
        f"Database:  {shown_url(settings)}",
        f'Try:       curl -H "Authorization: Bearer {key}" {where}/v1/inventory/demo/available',
    ]
    typer.echo("\n".join(lines), err=True)
