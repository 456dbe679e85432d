"""`holdfast worker`."""

import asyncio
import signal
from contextlib import AsyncExitStack
from functools import partial

import structlog
import typer

from holdfast.bootstrap.cells.workers import open_workers
from holdfast.bootstrap.services import open_worker
from holdfast.bootstrap.starting import Startup
from holdfast.bootstrap.stores import database_file
from holdfast.cli.ledger import explained, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import examples
from holdfast.errors import AlreadyRunning, EngineError
from holdfast.ledger.engine.server_lock import ServerLock
from holdfast.runtime.log import set_up_logging
from holdfast.settings import Settings

app = typer.Typer()
log = structlog.get_logger()


@app.command("worker", epilog=examples("holdfast serve --no-background", "holdfast worker"))
def worker(data: Data = None) -> None:
    """Run only the background tasks, next to servers.

    For servers started with --no-background: settles payments and refunds, returns expired units, prunes old records,
    reconciles and, in Redis mode, copies the journal into the ledger. SIGTERM and Ctrl-C stop it.
    """
    settings = settings_from(data)
    set_up_logging(settings.log_level)
    with explained(settings):
        _refuse_next_to_server(settings)
        asyncio.run(_work(settings))


def _refuse_next_to_server(settings: Settings) -> None:
    """Only on SQLite: PostgreSQL allows several servers and workers."""
    if not settings.is_embedded:
        return
    server, worker = (ServerLock(database_file(settings), role).owner() for role in ("server", "worker"))
    if server is not None and server == worker:
        raise AlreadyRunning(
            f"the server (process {server}) on {shown_url(settings)} already runs the background tasks.\n"
            "A worker is for servers started with: holdfast serve --no-background"
        )


async def _work(settings: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    opened = open_workers if settings.cells else open_worker
    async with AsyncExitStack() as stack:
        agents = await Startup(settings.start_timeout_s, stop).enter(stack, partial(opened, settings))
        if agents is None:
            return
        typer.echo(f"Working on {shown_url(settings)}", err=True)
        waits = [asyncio.create_task(event.wait()) for event in (stop, agents.first_end)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        # Exit, so that the supervisor restarts the process with all its tasks.
        if agents.ended and not stop.is_set():
            raise EngineError(f"background tasks stopped unexpectedly: {', '.join(agents.ended)}; see the log")
    log.info("stopped")
