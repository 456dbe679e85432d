"""Serving until SIGTERM: one process, or several under a supervisor."""

import asyncio

from holdfast.bootstrap.cells.settings import all_cells
from holdfast.bootstrap.stores import open_engine, open_ledger
from holdfast.errors import EngineError, SettingsError
from holdfast.http.server.address import check_port, resolve
from holdfast.http.server.fronts.supervisor import FrontSupervisor
from holdfast.http.server.supervisor import WorkerSupervisor
from holdfast.http.server.worker import Greet, any_pool, run_server
from holdfast.runtime.log import set_up_logging
from holdfast.runtime.private_files import make_private_directory
from holdfast.settings import Settings

TRY_S = 2.0


def serve(settings: Settings, host: str, port: int, greet: Greet, *, workers: int, background: bool) -> None:
    """Serve until SIGTERM or SIGINT. On SQLite one process decides, however many speak HTTP."""
    host = resolve(host, port)
    check_port(host, port)
    if workers == 1:
        run_server(settings, host, port, background, None, greet)
        return
    set_up_logging(settings.log_level)
    if settings.cells and any(each.is_embedded for each in (settings, *all_cells(settings).values())):
        raise SettingsError("--workers with HOLDFAST_CELLS needs PostgreSQL: for the control database and every cell")
    if settings.is_embedded:
        make_private_directory(settings.data)  # If it cannot be used, report that once, not from every process.
        FrontSupervisor(settings, host, port, workers, background, greet).run()
        return
    greet(asyncio.run(_try_stores(settings)))
    WorkerSupervisor(settings, host, port, workers, background).run()


async def _try_stores(settings: Settings) -> str | None:
    """Here, so that wrong settings are reported once and not by every worker again and again. For stores that are not
    up yet, the workers wait."""
    try:
        async with asyncio.timeout(TRY_S), open_ledger(settings) as database, open_engine(settings, database):
            return await any_pool(database)
    except (EngineError, TimeoutError):
        return None
