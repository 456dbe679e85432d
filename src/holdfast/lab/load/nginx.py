"""nginx, started for a measurement: the edge, or the nginx it is compared with."""

import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import which

from holdfast.edge.nginx_config import EdgeOptions, nginx_config
from holdfast.lab.load.engines import free_port
from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.load.processes import running
from holdfast.lab.load.servers import START_TIMEOUT_S, answers

NEEDED = "this needs nginx with njs: apt-get install nginx libnginx-mod-http-js"


@contextmanager
def running_edge(state: Path, origin: int, keys: Mapping[str, str]) -> Iterator[int]:
    """Yields the port of our edge in front of a server on this machine."""
    port = free_port()
    options = EdgeOptions(listen=f"127.0.0.1:{port}", upstreams=(f"127.0.0.1:{origin}",), keys=keys, state=state)
    with running_nginx("edge", state, nginx_config(options), f"http://127.0.0.1:{port}/_edge/health"):
        yield port


@contextmanager
def running_nginx(name: str, state: Path, config: str, health: str) -> Iterator[None]:
    if which("nginx") is None:
        raise BenchFailed(NEEDED)
    file = state / f"{name}.conf"
    file.write_text(config)
    command = ["nginx", "-c", str(file), "-g", "daemon off;"]
    # SIGTERM, because a killed master would leave its workers running.
    with running(name, command, state, ended_by=signal.SIGTERM) as process:
        process.await_ready(lambda: answers(health), START_TIMEOUT_S)
        yield


def nginx_version() -> str:
    printed = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=False).stderr
    return printed.strip().rpartition("/")[2]
