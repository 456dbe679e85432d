"""A real nginx in front of a real server, configured by `holdfast edge nginx`."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import which

import httpx
import pytest
from http_calling import eventually
from http_metrics import scrape
from http_sales import Store
from http_serving import Server, connect, run_holdfast

from holdfast.lab.load.engines import free_port

INSTALL = "nginx is missing: make edge-tools"
STOP_S = 20.0


@dataclass(frozen=True)
class Edge:
    port: int
    origin: Server
    state: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self, token: str | None = None) -> httpx.Client:
        return connect(self.url, token)

    @property
    def log(self) -> str:
        return (self.state / "error.log").read_text()


def front(store: Store, edge: Edge) -> Store:
    """The same sale, called through the edge."""
    return replace(store, server=edge)  # type: ignore[arg-type]


def reached(server: Server) -> float:
    """How many requests the server has answered."""
    return sum(scrape(server)["holdfast_http_requests_total"].values())


@contextmanager
def edge_of(
    origin: Server, *options: str, upstream: str | None = None, environment: dict[str, str] | None = None
) -> Iterator[Edge]:
    if which("nginx") is None:
        pytest.fail(INSTALL)
    port = free_port()
    # Not pytest's own directory: nginx's workers are another user, who may not enter it.
    with tempfile.TemporaryDirectory(prefix="holdfast-edge-") as name:
        state = Path(name)
        state.chmod(0o755)
        upstream = upstream or f"127.0.0.1:{origin.port}"
        config = write_config(origin, state, f"127.0.0.1:{port}", upstream, *options)
        command = ["nginx", "-c", str(config), "-g", "daemon off;"]
        with (state / "stderr").open("wb") as stderr:
            process = subprocess.Popen(command, stderr=stderr, env=environment or os.environ)
        edge = Edge(port, origin, state)
        try:
            eventually(lambda: _is_up(edge, process))
            yield edge
        finally:
            process.terminate()
            process.wait(STOP_S)


def write_config(origin: Server, state: Path, listen: str, upstream: str, *options: str) -> Path:
    made = run_holdfast(
        "edge", "nginx", "--listen", listen, "--upstream", upstream, "--state", str(state), *options,
        directory=origin.directory, environment=origin.environment,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    config = state / "edge.conf"
    config.write_text(made.stdout)
    return config


def _is_up(edge: Edge, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, (edge.state / "stderr").read_text()
    try:
        with edge.connect() as client:
            return client.get("/_edge/health").status_code == 200
    except httpx.TransportError:
        return False
