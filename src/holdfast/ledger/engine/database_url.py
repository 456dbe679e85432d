"""Which databases a ledger can be in."""

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
