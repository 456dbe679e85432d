"""`holdfast` commands as processes that need not import Holdfast.

Importing it takes three quarters of the time until a server is ready, and tests start hundreds of servers. So each test
process starts a helper, which has imported everything and runs each command in a fork of itself, as `python -m
holdfast` would: with its own arguments, environment, directory and output. That `python -m holdfast` itself works is
shown by the tests that start it, such as those of Ctrl-C.

The helper is asked through a socket: a message with the command, beside it the three standard files and the pipe on
which it answers, first with the process ID and, once the process has ended, with its exit status and CPU time.
"""

import atexit
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

HOLDFAST = (sys.executable, "-m", "holdfast")
_STARTED = struct.Struct("i")
_ENDED = struct.Struct("id")
_lock = threading.Lock()
_spent_s = 0.0


def spent_s() -> float:
    """The processor time of all commands that have ended and were waited for."""
    return _spent_s


class Forked:
    """A process, with the part of the interface of `subprocess.Popen` that tests use."""

    def __init__(self, command: Sequence[str], status: int) -> None:
        self.args = list(command)
        self.returncode: int | None = None
        self._status = status
        self._reading = threading.Lock()
        (self.pid,) = _STARTED.unpack(_read(status, _STARTED.size))

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, within_s: float | None) -> int | None:
        with self._reading:
            if self.returncode is None and select.select([self._status], [], [], within_s)[0]:
                self.returncode, took_s = _ENDED.unpack(_read(self._status, _ENDED.size))
                os.close(self._status)
                _add(took_s)
            return self.returncode


Process = Forked | subprocess.Popen[bytes]


def start(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdout: IO[bytes] | int = 1,
    stderr: IO[bytes] | int = 2,
) -> Process:
    """Like `Popen`. Other programs than Holdfast, and other versions of it, are started as usual."""
    environment = dict(os.environ if env is None else env)
    is_here = environment.get("PYTHONPATH") == os.environ.get("PYTHONPATH")
    if tuple(command[:3]) != HOLDFAST or not is_here:
        return subprocess.Popen(command, cwd=cwd, env=environment, stdout=stdout, stderr=stderr)
    order = {"arguments": list(command[3:]), "cwd": str(cwd or Path.cwd()), "env": environment}
    ours, theirs = os.pipe()
    files = [file if isinstance(file, int) else file.fileno() for file in (stdout, stderr)]
    try:
        with _lock:
            _send(_helper(), json.dumps(order).encode(), [*files, theirs])
    finally:
        os.close(theirs)
    return Forked(command, ours)


def run(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Like `subprocess.run` that captures the output."""
    with TemporaryFile() as out, TemporaryFile() as err:
        process = start(command, cwd=cwd, env=env, stdout=out, stderr=err)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
            process.wait()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(list(command), code, out.read(), err.read())


def run_text(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    ran = run(command, cwd=cwd, env=env, timeout=timeout)
    return subprocess.CompletedProcess(ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode())


@cache
def _helper() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        # It stops when this end of the socket is closed.
        process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("forking_helper.py"), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
        )

    def stop() -> None:
        ours.close()
        process.wait()

    atexit.register(stop)
    return ours


def _send(helper: socket.socket, message: bytes, files: list[int]) -> None:
    socket.send_fds(helper, [struct.pack("I", len(message))], files)
    helper.sendall(message)


def _read(file: int, size: int) -> bytes:
    data = os.read(file, size)
    assert len(data) == size, "the helper that starts processes has ended"
    return data


def _add(took_s: float) -> None:
    global _spent_s  # noqa: PLW0603 - it is one sum for the whole process
    with _lock:
        _spent_s += took_s
