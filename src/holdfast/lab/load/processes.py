"""Child processes that are always stopped, and whose log is shown when they fail."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.load.watchdog import watched

_STOP_TIMEOUT_S = 12.0
_LAST_WORDS = 2000
_MIB = 1024 * 1024


class Process:
    def __init__(self, name: str, child: "subprocess.Popen[bytes]", log: Path) -> None:
        self.name = name
        self.pid = child.pid
        self._child = child
        self._log = log

    def await_ready(self, is_ready: Callable[[], bool], timeout_s: float) -> None:
        until = time.monotonic() + timeout_s
        while not is_ready():
            if self._child.poll() is not None:
                raise BenchFailed(f"{self.name} stopped with {self._child.returncode} at start:\n{self._last_words()}")
            if time.monotonic() > until:
                raise BenchFailed(f"{self.name} was not ready within {timeout_s:g} s:\n{self._last_words()}")
            time.sleep(0.02)

    def check_alive(self) -> None:
        if self._child.poll() is not None:
            raise BenchFailed(f"{self.name} died with {self._child.returncode}:\n{self._last_words()}")

    def memory_mb(self) -> float:
        return memory_mb(self.pid)

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-_LAST_WORDS:].strip()


def memory_mb(pid: int | None = None) -> float:
    """Current resident memory, by default of this process."""
    import psutil  # type: ignore[import-untyped] # noqa: PLC0415 - comes with the bench extra

    rss: int = psutil.Process(pid).memory_info().rss
    return round(rss / _MIB, 1)


@contextmanager
def running(
    name: str,
    command: Sequence[str],
    directory: Path,
    environment: Mapping[str, str] | None = None,
    *,
    ended_by: signal.Signals = signal.SIGKILL,
) -> Iterator[Process]:
    """Runs a command in `directory`, with its output in a file there, until the block ends. If this process is killed,
    the command is sent `ended_by`."""
    log = directory / f"{name}.log"
    with log.open("wb") as output:
        child = subprocess.Popen(
            command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    with ExitStack() as ending:
        ending.callback(_stop, child)
        ending.enter_context(watched(child.pid, ended_by))
        # Watched until it has stopped, because this process may be killed while it waits for that.
        ending.callback(_stop, child)
        yield Process(name, child, log)


def _stop(child: "subprocess.Popen[bytes]") -> None:
    child.terminate()
    try:
        child.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def clean_environment(**added: str) -> dict[str, str]:
    """Our environment without Holdfast settings, so that figures do not depend on the shell."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return {**kept, "PYTHONUNBUFFERED": "1", **added}
