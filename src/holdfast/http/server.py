"""Running the application: one process on granian, or several that share a port.

A server is one process, so that killing it kills all of it; nothing is left behind that could still take requests.
With several workers a supervisor starts them, passes SIGTERM on, and starts one anew if it dies; the workers hold a
pipe whose other end is the supervisor's, so they stop when it is gone, however it went.
"""

import asyncio
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

import structlog
import uvloop
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server
from prometheus_client.multiprocess import mark_process_dead
from sqlalchemy import func, select

from holdfast.bootstrap import open_house
from holdfast.engines import open_engine, open_ledger
from holdfast.errors import AlreadyRunning, HoldfastError, SettingsError
from holdfast.http.address import CONNECTIONS_MAX, resolve, url_of
from holdfast.http.app import App
from holdfast.http.requests import MAX_HEADER_BYTES
from holdfast.http.rsgi import RsgiApp
from holdfast.ledger.database import Database
from holdfast.ledger.tables import pools
from holdfast.log import set_up_logging
from holdfast.settings import Settings

log = structlog.get_logger()

# SIGTERM promises an exit within 10 s; requests still under way after this are cut off. That is longer than a
# transaction on a frozen database lasts, and leaves the rest for what else there is to close.
FINISH_S = 6.0
# How long a supervisor waits for its workers before it ends them itself.
WORKERS_STOP_S = 8.0
# After the last answer is handed over, the server's own thread still has to write it to the socket.
FLUSH_S = 0.1
HEADER_TIMEOUT_MS = 10_000


# Told of a pool there is, or None: called when nothing is left that could refuse the start.
Greet = Callable[[str | None], None]


def serve(settings: Settings, host: str, port: int, greet: Greet, *, workers: int, background: bool) -> None:
    """Serve until SIGTERM or SIGINT."""
    if workers > 1 and settings.is_embedded:
        raise AlreadyRunning(
            "--workers needs PostgreSQL: SQLite serves one server process. "
            "Set HOLDFAST_DATABASE_URL=postgresql://… or leave --workers at 1."
        )
    host = resolve(host, port)
    check_port(host, port)
    if workers == 1:
        run_server(settings, host, port, background, None, greet)
        return
    set_up_logging(settings.log_level)
    # Once, and here: what is wrong with the stores is said once, and not by every worker for ever.
    greet(asyncio.run(_try_stores(settings)))
    _Supervisor(settings, host, port, workers, background).run()


async def _try_stores(settings: Settings) -> str | None:
    async with open_ledger(settings) as database, open_engine(settings, database):
        return await _any_pool(database)


async def _any_pool(database: Database) -> str | None:
    return await database.read(lambda connection: connection.execute(select(func.min(pools.c.sku_id))).scalar())


def check_port(host: str, port: int) -> None:
    """Workers share their port, so the system would not complain about a stranger on it. We do."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as exc:
            raise SettingsError(
                f"cannot listen on {host}:{port} ({exc.strerror}); choose another with --host, --port"
            ) from exc


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
        sys.exit(1)


async def _serve(
    settings: Settings, host: str, port: int, background: bool, supervisor: Pipe | None, greet: Greet | None
) -> None:
    async with open_house(settings, background=background) as house:
        app = App(house)
        server = build_server(RsgiApp(app), host, port, Interfaces.RSGI)
        stopping = asyncio.Event()
        _stop_on_signal(stopping.set, supervisor)
        if greet is not None:
            greet(await _any_pool(house.database))
        log.info("serving", url=url_of(host, port), database=house.database.dialect_name, background=background)
        serving = asyncio.create_task(server.serve())
        await asyncio.wait([serving, asyncio.create_task(stopping.wait())], return_when=asyncio.FIRST_COMPLETED)
        app.end_streams()
        server.stop()  # type: ignore[no-untyped-call]
        await _finish(app, serving)
    log.info("stopped")


def build_server(target: Any, host: str, port: int, interface: Interfaces) -> Server:
    return Server(
        target,
        address=host,
        port=port,
        interface=interface,
        http=HTTPModes.http1,
        websockets=False,
        backlog=4096,
        backpressure=CONNECTIONS_MAX,
        http1_settings=HTTP1Settings(header_read_timeout=HEADER_TIMEOUT_MS, max_buffer_size=MAX_HEADER_BYTES),
        log_enabled=False,
    )


def _stop_on_signal(stop: Callable[[], None], supervisor: Pipe | None) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    if supervisor is not None:
        loop.add_reader(supervisor.fileno(), stop)


async def _finish(app: App, serving: "asyncio.Task[None]") -> None:
    """Clients that dawdle over a head or a body keep granian from returning; they have until then and no longer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(FINISH_S):
            await asyncio.shield(serving)
            await app.finish()
    await asyncio.sleep(FLUSH_S)


class _Supervisor:
    def __init__(self, settings: Settings, host: str, port: int, workers: int, background: bool) -> None:
        self._settings, self._host, self._port, self._background = settings, host, port, background
        self._workers = workers
        self._processes: list[BaseProcess] = []
        self._stopping = False
        self._stop_until = float("inf")
        self._theirs, self._ours = multiprocessing.get_context("spawn").Pipe(duplex=False)

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        with tempfile.TemporaryDirectory(prefix="holdfast-metrics-") as metrics_directory:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = metrics_directory
            while len(self._processes) < self._workers:
                self._processes.append(self._start())
            while not self._stopping:
                self._replace_the_dead()
            self._stop()  # Again, for a worker that was being started when the signal came.
            self._await_end()

    def _await_end(self) -> None:
        for process in self._processes:
            process.join(max(self._stop_until - time.monotonic(), 0))
            if process.is_alive():
                log.error("worker_killed", pid=process.pid)
                process.kill()
                process.join()

    def _start(self) -> BaseProcess:
        arguments = (self._settings, self._host, self._port, self._background, self._theirs)
        process = multiprocessing.get_context("spawn").Process(target=run_worker, args=arguments)
        process.start()
        return process

    def _stop(self, *_signal: object) -> None:
        if not self._stopping:
            self._stopping, self._stop_until = True, time.monotonic() + WORKERS_STOP_S
        for process in self._processes:
            process.terminate()

    def _replace_the_dead(self) -> None:
        dead = wait([process.sentinel for process in self._processes], timeout=1.0)
        for index, process in enumerate(self._processes):
            if process.sentinel in dead and not self._stopping:
                process.join()  # The sentinel may be there a moment before the exit status is.
                log.error("worker_died", exit_code=process.exitcode)
                mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
                time.sleep(1.0)  # A worker that cannot start must not be started in a tight loop.
                self._processes[index] = self._start()
