"""Real servers for these tests: processes of their own, on free ports, in directories of their own."""

import itertools
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil  # type: ignore[import-untyped]
import pytest
from http_calling import Shop, eventually

from databases import new_postgres_database, new_sqlite_database
from forking import HOLDFAST, Process, run_text, start
from holdfast.cli import main
from holdfast.lab.load.engines import free_port
from valkeys import ValkeyProcess

# Fixed, because they stand in the names of tests, and those must be the same in every process of a run.
SERVICE_KEY = "hf_" + "5e4b1ce" * 4
# As short as a secret may be: that every server here starts shows that 32 bytes are enough.
BUYER_SECRET = "b0ye45ec" * 4
SERVE = (*HOLDFAST, "serve")
START_S = 90.0
# A command that waits for its turn on a busy machine is not dropped, unless that is what the test is about.
QUEUE_TIMEOUT_MS = "30000"
_redis_databases = itertools.count()
# A command changes what belongs to the whole process: its directory, its environment, its output.
_ONE_COMMAND = threading.Lock()
# Ten seconds are promised on a machine that does nothing else.
STOP_S = 45.0
# For what is refused before any engine is asked.
on_one_engine = pytest.mark.parametrize("server", ["sqlite"], indirect=True)
# For what asks for much of every engine.
daily_on_one_engine = pytest.mark.parametrize(
    "server",
    ["sqlite", *(pytest.param(engine, marks=pytest.mark.slow) for engine in ("postgresql", "redis"))],
    indirect=True,
)
_GREETING = re.compile(r"^Holdfast is listening on .*?/available\n", re.MULTILINE | re.DOTALL)


@dataclass(eq=False)
class Server:
    port: int
    directory: Path
    environment: dict[str, str]
    _serve: list[str]
    process: Process

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.directory / "stderr").read_text()

    @property
    def log_lines(self) -> list[dict[str, Any]]:
        """What was logged, each line of it JSON, but for a few that greet a person. The last may be half written."""
        whole = self.log.rpartition("\n")[0]
        return [json.loads(line) for line in _GREETING.sub("", f"{whole}\n").splitlines()]

    @cached_property
    def client(self) -> httpx.Client:
        return self.connect(SERVICE_KEY)

    def connect(self, token: str | None = None) -> httpx.Client:
        return connect(self.url, token)

    def shop(self, token: str = SERVICE_KEY) -> Shop:
        """A pool that nobody else uses, not made yet."""
        client = self.client if token == SERVICE_KEY else self.connect(token)
        return Shop(client, f"sku-{uuid4().hex[:12]}")

    def children(self) -> list[psutil.Process]:
        """Of a server of several processes, those that the one that was started watches over."""
        return list(psutil.Process(self.process.pid).children())

    def listeners(self) -> list[psutil.Process]:
        """Those of them that listen."""
        found = []
        for child in self.children():
            try:
                sockets = child.net_connections("tcp")
            except psutil.NoSuchProcess:
                continue
            if any(s.status == psutil.CONN_LISTEN for s in sockets):
                found.append(child)
        return found

    def command(self, *arguments: str) -> Any:
        """What `holdfast … --json` says, with the same settings."""
        code, out, err = self.run(*arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit status, stdout and stderr of a command. It runs in this process: Python takes longer to start."""
        out, err = BytesIO(), BytesIO()
        with _ONE_COMMAND, pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.directory)
            patch.setattr(sys, "argv", ["holdfast", *arguments])
            for name in os.environ.keys() - self.environment.keys():
                patch.delenv(name)
            for name, value in self.environment.items():
                patch.setenv(name, value)
            with _text(out) as stdout, _text(err) as stderr, redirect_stdout(stdout), redirect_stderr(stderr):
                with pytest.raises(SystemExit) as exit_:
                    main()
                stdout.flush()
                stderr.flush()
                return int(exit_.value.code or 0), out.getvalue().decode(), err.getvalue().decode()

    def is_ready(self) -> bool:
        assert self.process.poll() is None, f"the server stopped: {self.log}"
        try:
            with self.connect() as client:
                return client.get("/healthz/ready").status_code == 200
        except httpx.TransportError:
            return False

    def sleep(self) -> None:
        """Stop until it is woken, without waiting for the end: a server with nothing to do needs processor time."""
        self.process.terminate()

    def wake(self) -> None:
        self.process.wait(STOP_S)
        self.process = _start(self._serve, self.directory, self.environment)
        eventually(self.is_ready, within_s=START_S)

    def move(self, directory: Path, settings: dict[str, str]) -> None:
        """Serve other stores, on the same port."""
        self.sleep()
        self.directory, self.environment = directory, settings_of(directory, settings)
        self.wake()

    def stop(self) -> int:
        """Ask it to stop, and say how it exited."""
        self.process.terminate()
        return self.process.wait(STOP_S)

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)


def _text(output: BytesIO) -> TextIOWrapper:
    """As a program's own output, which may be reconfigured."""
    return TextIOWrapper(output, encoding="utf-8")


RATES = "EUR/USD=1.0842,EUR/JPY=162.5"


def connect(url: str, token: str | None = None) -> httpx.Client:
    # Without `verify=False` each client reads all certificates there are, which takes longer than most tests.
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=url, headers=headers, timeout=60.0, verify=False, trust_env=False)


def settings_of(directory: Path, settings: dict[str, str]) -> dict[str, str]:
    """An environment in which Holdfast finds these settings and none of ours."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    own = {"SERVICE_KEY": SERVICE_KEY, "BUYER_SECRET": BUYER_SECRET, "DATA": str(directory / "data")}
    # A machine that runs tests has no CPU left, and optional reads would be off.
    defaults = {"QUEUE_TIMEOUT_MS": QUEUE_TIMEOUT_MS, "SHED_HOST_PERCENT": "0", "RATES": RATES}
    given = own | defaults | settings
    return inherited | {f"HOLDFAST_{name}": value for name, value in given.items()}


def run_holdfast(
    *arguments: str, directory: Path, environment: dict[str, str], timeout_s: float = 60.0
) -> subprocess.CompletedProcess[str]:
    return run_text([*HOLDFAST, *arguments], cwd=directory, env=environment, timeout=timeout_s)


@contextmanager
def started(
    directory: Path, *arguments: str, settings: dict[str, str] | None = None, command: tuple[str, ...] = SERVE
) -> Iterator[Server]:
    """A server that is ready. It is stopped at the end, if the test has not done so, and never left behind."""
    environment, port = settings_of(directory, settings or {}), free_port()
    # The demo refuses a file that it has not made.
    if command == SERVE and "HOLDFAST_DATABASE_URL" not in environment:
        _provide_database(Path(environment["HOLDFAST_DATA"]) / "holdfast.db")
    serve = [*command, "--port", str(port), *arguments]
    server = Server(port, directory, environment, serve, _start(serve, directory, environment))
    try:
        eventually(server.is_ready, within_s=START_S)
        yield server
    finally:
        _end(server.process)
        if "client" in server.__dict__:
            server.client.close()


def _start(command: list[str], directory: Path, environment: dict[str, str]) -> Process:
    with (directory / "stderr").open("ab") as stderr:
        return start(command, cwd=directory, env=environment, stdout=stderr, stderr=stderr)


def _provide_database(file: Path) -> None:
    if not file.exists():
        new_sqlite_database(file)


def _end(process: Process) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def database_setting(engine: str, request: pytest.FixtureRequest) -> dict[str, str]:
    """The setting that makes a server use this engine, on a database of its own."""
    if engine == "sqlite":
        return {}
    setting = {"DATABASE_URL": new_postgres_database(request.getfixturevalue("postgres_url"))}
    if engine == "redis":
        valkey: ValkeyProcess = request.getfixturevalue("http_valkey")
        # One ledger, one key space: two of them would take each other's pools for stale.
        setting["REDIS_URL"] = valkey.url.removesuffix("/0") + f"/{next(_redis_databases)}"
    return setting
