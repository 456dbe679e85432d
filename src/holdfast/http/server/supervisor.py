"""Several processes that are one server.

The supervisor starts them, passes SIGTERM on, and replaces one that dies. They hold a pipe whose other end is the
supervisor's, so they stop when it is gone, however it ended.
"""

import multiprocessing
import os
import signal
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import structlog
from msgspec import Struct
from prometheus_client.multiprocess import mark_process_dead

from holdfast.errors import Unavailable
from holdfast.http.server.worker import STORES_DOWN, run_worker
from holdfast.settings import Settings

log = structlog.get_logger()

# How long it waits for its processes before it kills them.
WORKERS_STOP_S = 8.0
# One that dies again and again, each time within STEADY_S of its start, is not started in a tight loop.
STEADY_S = 10.0
PAUSE_S = 1.0
_LOOK_S = 1.0

_spawning = multiprocessing.get_context("spawn")


class Slot(Struct, eq=False):
    """A process that should be running."""

    role: str
    start: Callable[[], BaseProcess]
    process: BaseProcess | None = None
    started_at: float = 0.0
    due_at: float = 0.0
    early_deaths: int = 0


class Supervisor(ABC):
    def __init__(self) -> None:
        self._slots: list[Slot] = []
        self._stopping = False
        self._stop_until = float("inf")
        self._theirs, self._ours = _spawning.Pipe(duplex=False)

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        # Only this user can look into it.
        with tempfile.TemporaryDirectory(prefix="holdfast-") as directory:
            try:
                self._slots = self._plan(Path(directory))
                while not self._stopping:
                    self._tend()
                    self._fill_slots()
                    self._wait_for_the_dead()
            finally:
                self._stop()  # Again, for a process that was being started when the signal came.
                self._await_end()

    @abstractmethod
    def _plan(self, directory: Path) -> list[Slot]:
        """The processes, which may share a directory that is theirs alone."""

    def _tend(self) -> None:  # noqa: B027 - most have nothing to do
        """Called at least once a second, and on every change."""

    def _forget(self, process: BaseProcess) -> None:  # noqa: B027 - most have nothing to do
        """Of a process that died."""

    def _news(self) -> list[Pipe]:
        return []

    def _processes(self) -> list[BaseProcess]:
        return [slot.process for slot in self._slots if slot.process is not None]

    def _spawn(self, target: Callable[..., None], *arguments: Any) -> BaseProcess:
        process = _spawning.Process(target=target, args=arguments)
        process.start()
        return process

    def _fill_slots(self) -> None:
        for slot in self._slots:
            if slot.process is None and slot.due_at <= time.monotonic() and not self._stopping:
                slot.started_at, slot.process = time.monotonic(), slot.start()
                log.info("process_started", role=slot.role, pid=slot.process.pid)

    def _wait_for_the_dead(self) -> None:
        due_in_s = [slot.due_at - time.monotonic() for slot in self._slots if slot.process is None]
        sentinels = [slot.process.sentinel for slot in self._slots if slot.process is not None]
        dead = wait([*sentinels, *self._news()], timeout=max(0.0, min([_LOOK_S, *due_in_s])))
        for slot in self._slots:
            process = slot.process
            if process is None or process.sentinel not in dead or self._stopping:
                continue
            process.join()  # The sentinel may be there a moment before the exit status is.
            log.error("worker_died", role=slot.role, pid=process.pid, exit_code=process.exitcode)
            if process.exitcode == STORES_DOWN:
                raise Unavailable("the stores did not come up in time; the log of the workers says why")
            self._forget(process)
            now = time.monotonic()
            slot.early_deaths = slot.early_deaths + 1 if now - slot.started_at < STEADY_S else 0
            slot.process, slot.due_at = None, now + (PAUSE_S if slot.early_deaths > 1 else 0.0)

    def _stop(self, *_signal: object) -> None:
        if not self._stopping:
            self._stopping, self._stop_until = True, time.monotonic() + WORKERS_STOP_S
        for process in self._processes():
            process.terminate()

    def _await_end(self) -> None:
        for process in self._processes():
            process.join(max(self._stop_until - time.monotonic(), 0))
            if process.is_alive():
                log.error("worker_killed", pid=process.pid)
                process.kill()
                process.join()


class WorkerSupervisor(Supervisor):
    """Supervises complete servers that share a port and the stores."""

    def __init__(self, settings: Settings, host: str, port: int, workers: int, background: bool) -> None:
        super().__init__()
        self._workers, self._arguments = workers, (settings, host, port, background, self._theirs)

    def _plan(self, directory: Path) -> list[Slot]:
        # Each counts for itself, and any of them is asked for what all have counted.
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)
        return [Slot("server", lambda: self._spawn(run_worker, *self._arguments)) for _ in range(self._workers)]

    def _forget(self, process: BaseProcess) -> None:
        mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
