"""One server process on granian.

A server is one process, so that killing it kills all of it; nothing is left behind that could still take requests.
"""

import asyncio
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from multiprocessing.connection import Connection as Pipe

import structlog
import uvloop
from sqlalchemy import func, select

from holdfast.bootstrap.starting import Startup
from holdfast.errors import EngineError, HoldfastError
from holdfast.http.server.address import url_of
from holdfast.http.server.cells.app import open_app
from holdfast.http.server.listening import Listener, stop_on_signal
from holdfast.ledger.engine.database import Database
from holdfast.ledger.tables.stock import pools
from holdfast.runtime.log import set_up_logging
from holdfast.settings import Settings

log = structlog.get_logger()

# The exit status of a worker whose stores did not come up in time.
STORES_DOWN = 3

# Called with a pool there is, or None, when nothing is left that could refuse the start.
Greet = Callable[[str | None], None]


def run_server(
    settings: Settings, host: str, port: int, background: bool, supervisor: Pipe | None, greet: Greet | None = None
) -> None:
    set_up_logging(settings.log_level)
    uvloop.run(_serve(settings, host, port, background, supervisor, greet))


def run_worker(settings: Settings, host: str, port: int, background: bool, supervisor: Pipe) -> None:
    try:
        run_server(settings, host, port, background, supervisor)
    except HoldfastError as exc:
        log.error("worker_failed", error=str(exc))  # noqa: TRY400 - the message is the point, not where it came from
        sys.exit(STORES_DOWN if isinstance(exc, EngineError) else 1)


async def _serve(
    settings: Settings, host: str, port: int, background: bool, supervisor: Pipe | None, greet: Greet | None
) -> None:
    """A server that has to wait for its stores listens and says so. Otherwise it does not listen before it can serve:
    requests would rather go to another process on the same port."""
    stopping = asyncio.Event()
    stop_on_signal(stopping.set, supervisor)
    listener = Listener(host, port)
    startup = Startup(settings.start_timeout_s, stopping, listener.listen)
    try:
        async with AsyncExitStack() as stack:
            opened = await startup.enter(stack, partial(open_app, settings, background=background))
            if opened is not None:
                services, app = opened
                if greet is not None:
                    greet(await any_pool(services.database))
                database = services.database.dialect_name
                log.info("serving", url=url_of(host, port), database=database, background=background)
                await listener.serve(app, stopping)
    finally:
        await listener.close()
    log.info("stopped")


async def any_pool(database: Database) -> str | None:
    """For the greeting, which is no reason to give up a start if the store is slow to answer."""
    try:
        return await database.read(lambda connection: connection.execute(select(func.min(pools.c.sku_id))).scalar())
    except EngineError:
        return None
