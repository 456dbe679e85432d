"""`holdfast worker`."""

import asyncio
import signal

import typer

from holdfast.bootstrap import open_worker
from holdfast.cli.ledger import explained, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import examples
from holdfast.log import set_up_logging
from holdfast.settings import Settings

app = typer.Typer()


@app.command("worker", epilog=examples("holdfast serve --no-background", "holdfast worker"))
def worker(data: Data = None) -> None:
    """Do the background work alone, beside servers.

    It returns overdue units and prunes old records, for servers that were started with --no-background. SIGTERM and
    Ctrl-C stop it.
    """
    settings = settings_from(data)
    set_up_logging(settings.log_level)
    typer.echo(f"Working on {shown_url(settings)}", err=True)
    with explained(settings):
        asyncio.run(_work(settings))


async def _work(settings: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with open_worker(settings):
        await stop.wait()
