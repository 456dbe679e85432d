"""Converts a PostgreSQL URL with libpq options to arguments of asyncpg.

An option is passed on where asyncpg has an equivalent, dropped where it only tunes libpq, and refused by name
otherwise: ignoring an unknown option could change how the connection is made.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from sqlalchemy.engine import URL

from holdfast.errors import SettingsError
from holdfast.ledger.engine.limits import LIMITS
from holdfast.ledger.engine.session import KEEPALIVES, Sessions

CONNECT_TIMEOUT_S = 3.0

_RENAMED = {"sslmode": "ssl", "dbname": "database"}
_PASSED_ON = {"host", "port", "user", "password", "passfile", "database", "ssl", "target_session_attrs", "krbsrvname"}
_NUMBERS = {"statement_cache_size", "prepared_statement_cache_size"}
_OF_SOCKET = KEEPALIVES.keys()
# asyncpg reads these from a URL only, not as arguments.
_IN_ADDRESS = {"sslrootcert", "sslcert", "sslkey", "sslcrl", "sslpassword"}
_SENT_TO_SERVER = {"application_name", "options"}
# Options that tune libpq, for which asyncpg has its own defaults. `channel_binding` is included because hosted
# databases put it into every URL.
_LEFT_OUT = {
    "channel_binding", "gssencmode", "sslcompression", "sslsni", "sslnegotiation", "client_encoding",
    "fallback_application_name", "load_balance_hosts",
}  # fmt: skip


def for_asyncpg(url: URL, limits: Mapping[str, str] = LIMITS) -> tuple[URL, dict[str, Any]]:
    """The URL without options that asyncpg would refuse, and the equivalent arguments of `connect`."""
    given = {_RENAMED.get(name, name): value for name, value in url.query.items()}
    known = _PASSED_ON | _NUMBERS | _IN_ADDRESS | _SENT_TO_SERVER | _OF_SOCKET | _LEFT_OUT | {"connect_timeout"}
    if unknown := sorted(given.keys() - known):
        raise SettingsError(f"HOLDFAST_DATABASE_URL: the option {unknown[0]} is not known; remove it")
    numbers = {name: _number(name, given[name]) for name in given.keys() & {*_NUMBERS, "connect_timeout"}}
    sessions = Sessions(
        {name: str(given[name]) for name in given.keys() & _SENT_TO_SERVER},
        {name: _number(name, given[name]) for name in given.keys() & _OF_SOCKET},
        limits,
        named_statements=numbers.get("statement_cache_size") != 0,
    )
    arguments: dict[str, Any] = {
        # In libpq, 0 means to wait forever, which is wrong for a server.
        "timeout": float(numbers.pop("connect_timeout", 0)) or CONNECT_TIMEOUT_S,
        "async_creator_fn": sessions.open,
        "prepared_statement_name_func": sessions.statement_name,
        **numbers,
    }
    if in_address := {name: given[name] for name in given.keys() & _IN_ADDRESS}:
        arguments["dsn"] = f"postgresql:///?{urlencode(in_address)}"
    kept = {name: value for name, value in given.items() if name in _PASSED_ON}
    return url.set(drivername="postgresql+asyncpg", query=kept), arguments


def _number(name: str, value: object) -> int:
    text = str(value)
    if not text.isdecimal():
        raise SettingsError(f"HOLDFAST_DATABASE_URL: {name} must be a whole number")
    return int(text)
