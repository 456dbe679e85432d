"""The Go peer (`peers/go`), built where `go` is installed: the same idea in another language, with our API's paths.

Its source ships with Holdfast; Go fetches the modules that `go.sum` lists and keeps build results in its own cache.
"""

import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.resources import as_file, files
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.lab.load.engines import free_port
from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.load.processes import clean_environment, running
from holdfast.lab.load.servers import START_TIMEOUT_S, Holdfast, answers, new_service_key

# Compiling SQLite takes a minute of one core, and longer on a busy machine.
BUILD_TIMEOUT_S = 1_800.0
_LAST_WORDS = 600


class PeerAbsent(HoldfastError):
    """The peer cannot be built on this machine, so it has no figures."""


def build_peer(directory: Path) -> Path:
    """Build the program in `directory`. Raises `PeerAbsent` if tools or modules are missing; source that does not
    compile is a failure."""
    for tool, use in (("go", "the Go peer"), ("cc", "SQLite for the Go peer")):
        if shutil.which(tool) is None:
            raise PeerAbsent(f"{tool} is not on the PATH, so {use} was not built")
    program = directory / "go-peer"
    with as_file(files("holdfast.lab.bench") / "peers" / "go") as source:
        fetched = _go(source, "mod", "download")
        if fetched.returncode != 0:
            raise PeerAbsent(f"Go could not fetch the modules of the peer: {_last_words(fetched)}")
        built = _go(source, "build", "-trimpath", "-buildvcs=false", "-o", str(program), ".")
    if built.returncode != 0:
        raise BenchFailed(f"the Go peer does not compile: {_last_words(built)}")
    return program


def go_version() -> str:
    """For example `go1.26`."""
    return subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout.strip()


def _go(source: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = clean_environment(CGO_ENABLED="1", GOFLAGS="", GOWORK="off")
    try:
        return subprocess.run(
            ["go", *arguments], cwd=source, env=environment, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as exc:
        raise PeerAbsent(f"`go {arguments[0]}` took longer than {BUILD_TIMEOUT_S:g} s") from exc


def _last_words(done: "subprocess.CompletedProcess[str]") -> str:
    return " ".join(done.stderr.split())[-_LAST_WORDS:]


@contextmanager
def go_server(program: Path, directory: Path, database_url: str | None) -> Iterator[Holdfast]:
    """Runs on the same PostgreSQL server as ours, or on its own SQLite file. Go uses every core by default."""
    port, key, buyer_secret = free_port(), new_service_key(), secrets.token_hex(16)
    command = [str(program), f"127.0.0.1:{port}", database_url or str(directory / "go-peer.db")]
    environment = clean_environment(PEER_SERVICE_KEY=key, PEER_BUYER_SECRET=buyer_secret)
    with (
        running("go-peer", command, directory, environment) as process,
        closing(Holdfast(process, port, key, buyer_secret)) as server,
    ):
        process.await_ready(lambda: answers(f"http://127.0.0.1:{port}/healthz/ready"), START_TIMEOUT_S)
        yield server
