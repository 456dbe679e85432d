"""Fronts and a core as one server, and the next core, which has loaded everything and waits for its turn.

Loading the program takes longer than opening its stores. So a core that dies is replaced by one that is already loaded
and only has to open the stores.
"""

import multiprocessing
import time
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess
from pathlib import Path

import structlog
from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.http.server.address import url_of
from holdfast.http.server.fronts.core import run_core
from holdfast.http.server.fronts.front import run_front
from holdfast.http.server.supervisor import Slot, Supervisor
from holdfast.http.server.worker import Greet
from holdfast.settings import Settings

log = structlog.get_logger()

# The next core is loaded when the one before has had the processor for its own start.
NEXT_CORE_S = 2.0


class _LoadedCore(Struct):
    process: BaseProcess
    turn: Pipe
    ready: Pipe


class FrontSupervisor(Supervisor):
    def __init__(self, settings: Settings, host: str, port: int, fronts: int, background: bool, greet: Greet) -> None:
        super().__init__()
        self._settings, self._host, self._port, self._background = settings, host, port, background
        self._fronts, self._greet = fronts, greet
        self._socket = Path()
        self._next: _LoadedCore | None = None
        self._core_started_at = 0.0
        # Of the first core, until it has spoken.
        self._ready: Pipe | None = None
        self._is_up = False

    def _plan(self, directory: Path) -> list[Slot]:
        self._socket = directory / "core"
        return [Slot("core", self._start_core), *(Slot("front", self._start_front) for _ in range(self._fronts))]

    def _start_front(self) -> BaseProcess:
        return self._spawn(run_front, self._settings, self._host, self._port, self._socket, self._theirs)

    def _start_core(self) -> BaseProcess:
        core, self._next = self._next, None
        if core is None or not core.process.is_alive():
            core = self._load_core()
        with suppress(OSError):  # If it has died just now, the next look finds it dead.
            core.turn.send(None)
        if not self._is_up:
            self._ready = core.ready
        self._core_started_at = time.monotonic()
        return core.process

    def _load_core(self) -> _LoadedCore:
        (waiting, turn), (ready, telling) = multiprocessing.Pipe(duplex=False), multiprocessing.Pipe(duplex=False)
        with waiting, telling:
            process = self._spawn(
                run_core, self._settings, self._background, self._socket, self._theirs, waiting, telling
            )
        return _LoadedCore(process, turn, ready)

    def _tend(self) -> None:
        if self._ready is not None and self._ready.poll():
            self._hear(self._ready)
            self._ready = None
        has_next = self._next is not None and self._next.process.is_alive()
        if self._is_up and not has_next and time.monotonic() - self._core_started_at > NEXT_CORE_S:
            self._next = self._load_core()

    def _hear(self, ready: Pipe) -> None:
        """Report invalid settings once, not by every core."""
        try:
            news = ready.recv()
        except EOFError:
            return  # It died; there will be another.
        if isinstance(news, HoldfastError | OSError):
            raise news
        self._is_up = True
        self._greet(news)
        log.info("serving", url=url_of(self._host, self._port), fronts=self._fronts, background=self._background)

    def _news(self) -> list[Pipe]:
        return [] if self._ready is None else [self._ready]

    def _processes(self) -> list[BaseProcess]:
        return [*super()._processes(), *([] if self._next is None else [self._next.process])]
