"""`holdfast worker`."""

import asyncio
import signal

import structlog
import typer

from holdfast.bootstrap import open_worker
from holdfast.cli.ledger import explained, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import examples
from holdfast.engines import database_file
from holdfast.errors import AlreadyRunning, EngineError
from holdfast.ledger.server_lock import ServerLock
from holdfast.log import set_up_logging
from holdfast.settings import Settings

app = typer.Typer()
log = structlog.get_logger()


@app.command("worker", epilog=examples("holdfast serve --no-background", "holdfast worker"))
def worker(data: Data = None) -> None:
    """Do the background work alone, beside servers.

    It settles payments and refunds, returns overdue units, prunes old records, checks that the books are right and,
    where Redis is the gate, copies its journal into the ledger: for servers that were started with --no-background.
    SIGTERM and Ctrl-C stop it.
    """
    settings = settings_from(data)
    set_up_logging(settings.log_level)
    with explained(settings):
        _refuse_beside_server(settings)
        asyncio.run(_work(settings))


def _refuse_beside_server(settings: Settings) -> None:
    """On SQLite. Where several servers work on one database, so may several workers."""
    if not settings.is_embedded:
        return
    server, worker = (ServerLock(database_file(settings), role).owner() for role in ("server", "worker"))
    if server is not None and server == worker:
        raise AlreadyRunning(
            f"the server (process {server}) on {shown_url(settings)} does the background work already.\n"
            "A worker is for servers that were started with: holdfast serve --no-background"
        )


async def _work(settings: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with open_worker(settings) as agents:
        typer.echo(f"Working on {shown_url(settings)}", err=True)
        waits = [asyncio.create_task(event.wait()) for event in (stop, agents.first_end)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        # Whoever started this process starts it again; running on without its work would help nobody.
        if agents.ended and not stop.is_set():
            raise EngineError(f"background work has ended by itself: {', '.join(agents.ended)}; the log says why")
    log.info("stopped")
