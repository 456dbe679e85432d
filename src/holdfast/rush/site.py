"""Where the crowd goes: a server somewhere, or one of our own, started for the rush in a temporary place."""

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from msgspec import Struct
from pydantic import SecretStr

from holdfast.bench.contenders import Place, holdfast_server, holdfast_worker
from holdfast.bench.engines import free_port, postgres, valkey
from holdfast.bench.processes import clean_environment, python, running
from holdfast.errors import SettingsError
from holdfast.settings import Settings

_START_S = 30.0
# Where things are and who may do what: of our own server, we say that ourselves.
_OURS = frozenset({"data", "database_url", "redis_url", "buyer_jwks_url", "payment_sandbox_url", "stripe_api_base"})


class Site(Struct, frozen=True):
    url: str
    buyer_secret: str
    service_key: str = ""
    sandbox_url: str = ""
    database_url: str = ""
    """Of a server that we started, to be verified in the end."""
    engine: str = ""

    @property
    def checked_url(self) -> str:
        return "http://{}:{}".format(*self.host_and_port)

    @property
    def host_and_port(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        if parts.scheme != "http" or parts.hostname is None:
            raise SettingsError(f"{self.url}: the crowd speaks plain HTTP, to an address such as http://127.0.0.1:8000")
        return parts.hostname, parts.port or 80


def engine_of(settings: Settings) -> str:
    return "redis" if settings.has_redis else "sqlite" if settings.is_embedded else "postgres"


@contextmanager
def own_site(engine: str, settings: Settings, *, needs_sandbox: bool) -> Iterator[Site]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-rush-")))
        sandbox_url = stack.enter_context(_sandbox(directory)) if needs_sandbox else ""
        database_url = None if engine == "sqlite" else stack.enter_context(postgres())
        redis_url = stack.enter_context(valkey(fsync="always")) if engine == "redis" else None
        place = Place(directory, database_url, redis_url)
        more = _kept(settings) | {"HOLDFAST_BUYER_SECRET": secrets.token_hex(16)}
        if sandbox_url:
            more["HOLDFAST_PAYMENT_SANDBOX_URL"] = sandbox_url
        server = stack.enter_context(holdfast_server(place, workers=1, **more))
        if redis_url is not None:
            stack.enter_context(holdfast_worker(place, **more))
        yield Site(
            f"http://127.0.0.1:{server.port}",
            more["HOLDFAST_BUYER_SECRET"],
            server.key,
            sandbox_url,
            database_url or f"sqlite:///{directory / 'data' / 'holdfast.db'}",
            engine,
        )


def _kept(settings: Settings) -> dict[str, str]:
    """What was set about how the server works, without its secrets: they are for the server they were made for."""
    given = {name: getattr(settings, name) for name in settings.model_fields_set - _OURS}
    plain = {name: value for name, value in given.items() if not isinstance(value, SecretStr) and value is not None}
    return {f"HOLDFAST_{name.upper()}": str(value) for name, value in plain.items()}


@contextmanager
def _sandbox(directory: Path) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = python("holdfast", "sandbox", "--port", str(port))
    with running("sandbox", command, directory, clean_environment()) as process:
        process.await_ready(lambda: _answers(f"{url}/faults"), _START_S)
        yield url


def _answers(url: str) -> bool:
    try:
        # Asked again and again, and each time would read every certificate there is.
        return httpx.get(url, trust_env=False, verify=False).status_code == 200  # noqa: S501 - on this machine
    except httpx.TransportError:
        return False
