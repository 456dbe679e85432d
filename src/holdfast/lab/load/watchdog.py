"""Ends what this process has started, if it is killed and cannot do it itself.

The model. A small process of its own reads a pipe whose other end only this process has. It is told of each child that
begins and ends. When the pipe closes, this process is gone, and the children that are left are killed. A child is known
by its ID and the time it was started: the system may have given the ID to somebody else meanwhile.

When it fails. If the watchdog is killed too, children stay behind, as without it. Temporary directories stay behind
always.

`python -m holdfast.lab.load.watchdog` is the process.
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
# The process that started the watchdog, which a fork of it did not.
_running: "tuple[int, subprocess.Popen[str]] | None" = None


@contextmanager
def watched(pid: int, number: signal.Signals = signal.SIGKILL) -> Iterator[None]:
    """The child is sent the signal if this process does not come to the end of the block."""
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
            # In a session of its own: Ctrl-C is for us, who then end our children in order.
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
    """In ticks since boot; 0 where the system does not say."""
    try:
        # The name of the program is in brackets, and may have anything in it.
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
                # One that was stopped takes no other signal.
                os.kill(int(pid), signal.SIGCONT)


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    watch(sys.stdin)
