"""Child processes that are deliberately killed and restarted on the same port and directory."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from holdfast.lab.load.processes import Process, running

START_TIMEOUT_S = 90.0


class Child:
    def __init__(
        self,
        name: str,
        command: Sequence[str],
        directory: Path,
        is_ready: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._name, self._command, self._directory = name, command, directory
        self._is_ready, self._environment = is_ready, environment
        self._stack = ExitStack()
        self._process: Process | None = None

    def start(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._process = self._stack.enter_context(
            running(self._name, self._command, self._directory, self._environment)
        )
        self._process.await_ready(self._is_ready, START_TIMEOUT_S)

    def kill(self) -> None:
        """Kills the process without a chance to save anything."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
        self.stop()

    def stop(self) -> None:
        self._stack.close()
        self._process = None
