"""Real servers for these tests: processes of their own, on free ports, in directories of their own."""

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil  # type: ignore[import-untyped]
import pytest
from http_calling import Shop, eventually

from conftest import new_postgres_database
from holdfast.bench.engines import free_port
from valkeys import ValkeyProcess

# Fixed, because they stand in the names of tests, and those must be the same in every process of a run.
SERVICE_KEY = "hf_" + "5e4b1ce" * 4
# As short as a secret may be: that every server here starts shows that 32 bytes are enough.
BUYER_SECRET = "b0ye45ec" * 4
HOLDFAST = (sys.executable, "-m", "holdfast")
SERVE = (*HOLDFAST, "serve")
START_S = 90.0
# A command that waits for its turn on a busy machine is not dropped, unless that is what the test is about.
PATIENCE_MS = "30000"
_redis_databases = itertools.count()
# Ten seconds are promised, to whoever has the machine to themselves.
STOP_S = 45.0
_GREETING = re.compile(r"^Holdfast serves on .*?/available\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Server:
    port: int
    directory: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.directory / "stderr").read_text()

    @property
    def log_lines(self) -> list[dict[str, Any]]:
        """What was logged, each line of it JSON. A few lines among them greet a person."""
        return [json.loads(line) for line in _GREETING.sub("", self.log).splitlines()]

    @cached_property
    def client(self) -> httpx.Client:
        return self.connect(SERVICE_KEY)

    def connect(self, token: str | None = None) -> httpx.Client:
        return connect(self.url, token)

    def shop(self, token: str = SERVICE_KEY) -> Shop:
        """A pool that nobody else uses, not made yet."""
        client = self.client if token == SERVICE_KEY else self.connect(token)
        return Shop(client, f"sku-{uuid4().hex[:12]}")

    def command(self, *arguments: str) -> Any:
        """What `holdfast … --json` says, run beside the server with the same settings."""
        ran = run_holdfast(*arguments, "--json", directory=self.directory, environment=self.environment)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    def is_ready(self) -> bool:
        assert self.process.poll() is None, f"the server stopped: {self.log}"
        try:
            with self.connect() as client:
                return client.get("/healthz/ready").status_code == 200
        except httpx.TransportError:
            return False

    def stop(self) -> int:
        """Ask it to stop, and say how it exited."""
        self.process.terminate()
        return self.process.wait(STOP_S)

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)


def connect(url: str, token: str | None = None) -> httpx.Client:
    # Without `verify=False` each client reads all certificates there are, which takes longer than most tests.
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=url, headers=headers, timeout=60.0, verify=False, trust_env=False)


def settings_of(directory: Path, settings: dict[str, str]) -> dict[str, str]:
    """An environment in which Holdfast finds these settings and none of ours."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    own = {"SERVICE_KEY": SERVICE_KEY, "BUYER_SECRET": BUYER_SECRET, "DATA": str(directory / "data")}
    given = own | {"PATIENCE_MS": PATIENCE_MS} | settings
    return inherited | {f"HOLDFAST_{name}": value for name, value in given.items()}


def run_holdfast(
    *arguments: str, directory: Path, environment: dict[str, str], timeout_s: float = 60.0
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HOLDFAST, *arguments],
        cwd=directory, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip


@contextmanager
def started(
    directory: Path, *arguments: str, settings: dict[str, str] | None = None, command: tuple[str, ...] = SERVE
) -> Iterator[Server]:
    """A server that is ready. It is stopped at the end, if the test has not done so, and never left behind."""
    environment, port = settings_of(directory, settings or {}), free_port()
    with (directory / "stderr").open("ab") as stderr:
        process = subprocess.Popen(
            [*command, "--port", str(port), *arguments], cwd=directory, env=environment, stdout=stderr, stderr=stderr
        )
    server = Server(port, directory, environment, process)
    try:
        eventually(server.is_ready, within_s=START_S)
        yield server
    finally:
        _end(process)
        if "client" in server.__dict__:
            server.client.close()


def _end(process: subprocess.Popen[bytes]) -> None:
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
