"""Parses HOLDFAST_REDIS_URL: one server, a service behind sentinels, or a cluster.

The URL may hold a password, so no message repeats it.
"""

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from holdfast.errors import SettingsError

Address = tuple[str, int]

_FORMS = """HOLDFAST_REDIS_URL is not an address Holdfast knows; use one of (with rediss for TLS)
  redis://user:password@host:6379/0
  redis+sentinel://user:password@host1:26379,host2:26379/service-name/0
  redis+cluster://user:password@host1:6379,host2:6379
in which a password is percent-encoded"""


class Topology(Enum):
    SINGLE = ""
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


_PORTS = {Topology.SINGLE: 6379, Topology.SENTINEL: 26379, Topology.CLUSTER: 6379}
_FILES = {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"}
_SENTINEL_LOGIN = {"sentinel_username", "sentinel_password"}


@dataclass(frozen=True)
class Login:
    username: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class RedisUrl:
    topology: Topology
    addresses: tuple[Address, ...]
    login: Login
    sentinel_login: Login
    service: str
    database: int
    # None without TLS; else the configured files.
    tls_files: dict[str, str] | None


def parse_redis_url(url: str) -> RedisUrl:
    try:
        return _parse(urlsplit(url))
    except ValueError:
        # Not chained: the messages of urllib and int repeat their input.
        raise SettingsError(_FORMS) from None


def _parse(parts: SplitResult) -> RedisUrl:
    topology, is_tls = _scheme(parts.scheme)
    query = _query(parts.query, _FILES | _SENTINEL_LOGIN if topology is Topology.SENTINEL else _FILES)
    login, _, hosts = parts.netloc.rpartition("@")
    service, database = _path(topology, parts.path)
    return RedisUrl(
        topology,
        _addresses(hosts, _PORTS[topology], 1 if topology is Topology.SINGLE else None),
        _login(login),
        Login(query.get("sentinel_username"), query.get("sentinel_password")),
        service,
        database,
        _tls_files(query, is_tls=is_tls),
    )


def _scheme(scheme: str) -> tuple[Topology, bool]:
    protocol, plus, topology = scheme.partition("+")
    if protocol not in ("redis", "rediss") or (plus and not topology):
        raise ValueError
    return Topology(topology), protocol == "rediss"


def _query(text: str, known: set[str]) -> dict[str, str]:
    query = dict(parse_qsl(text, strict_parsing=True)) if text else {}
    if not query.keys() <= known:
        # Not named: it may be the rest of a password with a question mark in it.
        raise SettingsError(f"HOLDFAST_REDIS_URL: after the question mark may be only {', '.join(sorted(known))}")
    return query


def _login(text: str) -> Login:
    username, _, password = text.partition(":")
    return Login(unquote(username) or None, unquote(password) or None)


def _addresses(hosts: str, port: int, most: int | None) -> tuple[Address, ...]:
    addresses = tuple(_address(host, port) for host in hosts.split(","))
    if most is not None and len(addresses) > most:
        raise ValueError
    return addresses


def _address(text: str, port: int) -> Address:
    # urllib handles IPv6 in brackets and the range of ports.
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.path:
        raise ValueError
    return parts.hostname, port if parts.port is None else parts.port


def _path(topology: Topology, path: str) -> tuple[str, int]:
    """The name of the service and the number of the database."""
    names = [unquote(name) for name in path.strip("/").split("/")] if path.strip("/") else []
    service = ""
    if topology is Topology.SENTINEL:
        (service,), names = names[:1], names[1:]
    if topology is Topology.CLUSTER and names:
        raise ValueError
    (database,) = names or ["0"]
    if not database.isdecimal():
        raise ValueError
    return service, int(database)


def _tls_files(query: dict[str, str], *, is_tls: bool) -> dict[str, str] | None:
    files = {name: path for name, path in query.items() if name in _FILES}
    for name, path in files.items():
        if not Path(path).is_file():
            raise SettingsError(f"HOLDFAST_REDIS_URL: {name} names a file that is not there: {path}")
    if files and not is_tls:
        raise SettingsError(
            f"HOLDFAST_REDIS_URL: {', '.join(sorted(files))} mean TLS; begin with rediss instead of redis"
        )
    return files if is_tls else None


def check_redis(url: str, *, is_embedded: bool) -> None:
    if url:
        parse_redis_url(url)
        if is_embedded:
            raise SettingsError(
                "HOLDFAST_REDIS_URL needs PostgreSQL as its ledger: set HOLDFAST_DATABASE_URL=postgresql://…"
            )
