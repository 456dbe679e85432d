"""Kills the children of this process if it is killed and cannot do so itself.

The model. A small separate process reads a pipe whose other end only this process holds. It is notified of each child
that starts and ends. When the pipe closes, this process is gone, and the watchdog kills the remaining children. A child
is identified by its process ID and start time, because the system may have reused the ID.

When it fails. If the watchdog is killed too, children stay behind, as they would without it. Temporary directories
always stay behind.

`python -m holdfast.lab.load.watchdog` is the watchdog process.
"""

import atexit
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TextIO

_lock = Lock()
# The watchdog, and the process that started it: a fork of that process has to start its own.
_running: "tuple[int, subprocess.Popen[str]] | None" = None


@contextmanager
def watched(pid: int, number: signal.Signals = signal.SIGKILL) -> Iterator[None]:
    """Sends the signal to the child if this process dies before the end of the block."""
    known = f"{pid} {_started(pid)} {number.value}"
    _tell(f"+{known}")
    try:
        yield
    finally:
        _tell(f"-{known}")


def _tell(line: str) -> None:
    global _running  # noqa: PLW0603 - one for all that this process starts
    with _lock:
        if _running is None or _running[0] != os.getpid():
            command = [sys.executable, "-S", "-E", __file__]
            # In its own session: Ctrl-C should reach only us, and we then end our children in order.
            _running = os.getpid(), subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)
            atexit.register(_dismiss)
        pipe = _running[1].stdin
        assert pipe is not None
        with suppress(BrokenPipeError):
            pipe.write(f"{line}\n")
            pipe.flush()


def _dismiss() -> None:
    if _running is not None and _running[0] == os.getpid():
        _running[1].communicate()


def _started(pid: int) -> str:
    """Start time in ticks since boot; 0 where the system does not report it."""
    try:
        # The program's name is in parentheses and may contain anything.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return "0"


def watch(lines: TextIO) -> None:
    left: dict[str, None] = {}
    for line in lines:
        known = line[1:].strip()
        if line[0] == "+":
            left[known] = None
        else:
            left.pop(known, None)
    for known in left:
        pid, started, number = known.split()
        if _started(int(pid)) == started:
            with suppress(ProcessLookupError):
                os.kill(int(pid), int(number))
                # A stopped process handles no other signal until it is continued.
                os.kill(int(pid), signal.SIGCONT)


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    watch(sys.stdin)
