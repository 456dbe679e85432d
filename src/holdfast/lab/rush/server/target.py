"""The server under test: one that already runs, or one started for the rush in a temporary directory.

With an edge, buyers use that; sales and records are read from the server behind it.
"""

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct
from pydantic import SecretStr

from holdfast.errors import SettingsError
from holdfast.lab.load.engines import free_port, postgres, valkey
from holdfast.lab.load.nginx import running_edge
from holdfast.lab.load.processes import clean_environment, python, running
from holdfast.lab.load.servers import Place, answers, holdfast_server, holdfast_worker
from holdfast.room.tokens import edge_keys
from holdfast.runtime.signing import SigningKey
from holdfast.settings import Settings

_START_S = 30.0
# Locations and credentials, which we set ourselves for a server that we start.
_OURS = frozenset({"data", "database_url", "redis_url", "buyer_jwks_url", "payment_sandbox_url", "stripe_api_base"})


class Target(Struct, frozen=True):
    url: str
    buyer_secret: str
    service_key: str = ""
    sandbox_url: str = ""
    database_url: str = ""
    """Set for a server that we started, so that its ledger can be verified."""
    engine: str = ""
    buyer_claims: dict[str, str] = {}
    """Additional claims that buyers' tokens need: `aud`, `iss`."""
    has_edge: bool = False
    """Whether `url` is an edge, which marks each response with its source."""
    origin_url: str = ""
    """The server behind an edge that we started."""

    @property
    def host_and_port(self) -> tuple[str, int]:
        return _host_and_port(self.url)

    @property
    def origin(self) -> tuple[str, int]:
        """The address for operators, who bypass the edge where possible."""
        return _host_and_port(self.origin_url or self.url)


def _host_and_port(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        raise SettingsError(f"{url}: the load client needs plain HTTP, to an address such as http://127.0.0.1:8000")
    return parts.hostname, parts.port or 80


def engine_of(settings: Settings) -> str:
    return "redis" if settings.has_redis else "sqlite" if settings.is_embedded else "postgres"


class Installation(Struct, frozen=True):
    """The processes to start: one API process that also does the background work, or an edge, several API processes and
    a worker."""

    engine: str
    needs_sandbox: bool
    has_edge: bool = False
    api_processes: int = 1


@contextmanager
def start_target(installation: Installation, settings: Settings) -> Iterator[Target]:
    engine = installation.engine
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-rush-")))
        sandbox_url = stack.enter_context(_sandbox(directory)) if installation.needs_sandbox else ""
        database_url = None if engine == "sqlite" else stack.enter_context(postgres())
        redis_url = stack.enter_context(valkey(fsync="always")) if engine == "redis" else None
        place = Place(directory, database_url, redis_url)
        more = _stored(settings) | {"HOLDFAST_BUYER_SECRET": secrets.token_hex(16)}
        key = SigningKey("rush", secrets.token_hex(20))
        if installation.has_edge:
            # The edge is not a trusted proxy, so the whole crowd has one address: loopback, which has no rate limit.
            more["HOLDFAST_SIGNING_KEY"] = f"{key.key_id}:{key.secret}"
        if sandbox_url:
            more["HOLDFAST_PAYMENT_SANDBOX_URL"] = sandbox_url
        # On SQLite the single process that decides also does the background work.
        has_worker = redis_url is not None or (installation.has_edge and engine != "sqlite")
        server = stack.enter_context(
            holdfast_server(place, workers=installation.api_processes, background=not has_worker, **more)
        )
        if has_worker:
            stack.enter_context(holdfast_worker(place, **more))
        origin_url = f"http://127.0.0.1:{server.port}"
        url = stack.enter_context(_edge(server.port, key)) if installation.has_edge else origin_url
        yield Target(
            url,
            more["HOLDFAST_BUYER_SECRET"],
            server.key,
            sandbox_url,
            database_url or f"sqlite:///{directory / 'data' / 'holdfast.db'}",
            engine,
            settings.buyer_claims,
            installation.has_edge,
            origin_url if installation.has_edge else "",
        )


@contextmanager
def _edge(origin: int, key: SigningKey) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="holdfast-edge-") as name:
        # If root starts nginx, its workers run as another user.
        state = Path(name)
        state.chmod(0o755)
        with running_edge(state, origin, edge_keys([key])) as port:
            yield f"http://127.0.0.1:{port}"


def _stored(settings: Settings) -> dict[str, str]:
    """The operator's settings without secrets, because those belong to another server."""
    given = {name: getattr(settings, name) for name in settings.model_fields_set - _OURS}
    plain = {name: value for name, value in given.items() if not isinstance(value, SecretStr) and value is not None}
    return {f"HOLDFAST_{name.upper()}": str(value) for name, value in plain.items()}


@contextmanager
def _sandbox(directory: Path) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = python("holdfast", "sandbox", "--port", str(port))
    with running("sandbox", command, directory, clean_environment()) as process:
        process.await_ready(lambda: answers(f"{url}/faults"), _START_S)
        yield url
