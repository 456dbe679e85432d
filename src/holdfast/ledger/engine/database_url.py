"""Which databases a ledger can use, and how a URL can name several hosts."""

import re
from urllib.parse import urlencode

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from holdfast.errors import SettingsError


def check_database_url(url: str) -> None:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as exc:
        # The URL may contain a password, so it is not repeated.
        raise SettingsError(
            "HOLDFAST_DATABASE_URL is not a URL; use sqlite:///path or postgresql://user:password@host:5432/name"
        ) from exc
    backend = parsed.get_backend_name()
    if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise SettingsError("HOLDFAST_DATABASE_URL: name a file, as in sqlite:///data/holdfast.db")
    if backend not in ("sqlite", "postgresql"):
        raise SettingsError(
            f"HOLDFAST_DATABASE_URL: {backend}:// is not supported; use sqlite:///path or postgresql://…"
        )


# As in libpq: postgresql://user:password@h1:5432,h2:5433/name?options
_SEVERAL = re.compile(r"^(postgres(?:ql)?://)((?:[^@/?]*@)?)([^@/?]*,[^@/?]*)(/[^?]*)?(?:\?(.*))?$")


def with_hosts_as_options(url: str) -> str:
    """The same URL with its hosts where SQLAlchemy expects several of them: `?host=h1:5432&host=h2:5433`.

    They are tried in turn. Unless the URL says otherwise, only a host that accepts writes (the primary) is used.
    """
    several = _SEVERAL.match(url)
    if several is None:
        return url
    scheme, user, hosts, path, options = several.groups()
    if "[" in hosts:
        raise SettingsError(
            "HOLDFAST_DATABASE_URL: an IPv6 address cannot be one of several hosts; use host names, or name one host"
        )
    named = urlencode([("host", _with_port(host)) for host in hosts.split(",") if host], safe=":")
    given = [] if not options else [options]
    if "target_session_attrs=" not in (options or ""):
        given.append("target_session_attrs=read-write")
    return f"{scheme}{user}{path or '/'}?{'&'.join([named, *given])}"


def _with_port(host: str) -> str:
    """SQLAlchemy requires a port for every host; the default is PostgreSQL's, as in libpq."""
    name, _, port = host.partition(":")
    return f"{name}:{port or 5432}"


def parse_replica_urls(text: str) -> list[str]:
    return [url.strip() for url in text.split(",") if url.strip()]


def check_replica_urls(text: str, primary: str) -> None:
    urls = parse_replica_urls(text)
    if urls and not primary.startswith("postgres"):
        raise SettingsError("HOLDFAST_DATABASE_REPLICA_URLS needs HOLDFAST_DATABASE_URL=postgresql://…")
    for number, url in enumerate(urls, start=1):
        if re.match(r"postgres(?:ql)?://[^,]+\Z", url) is None:
            # It may contain a password, so it is not repeated.
            raise SettingsError(
                f"HOLDFAST_DATABASE_REPLICA_URLS: number {number} is not a URL such as postgresql://user@h2:5432/name"
            )
        check_database_url(url)
