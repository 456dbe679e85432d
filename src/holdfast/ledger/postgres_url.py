"""PostgreSQL's address as people have it, with the options of libpq, made into what asyncpg takes.

An option is passed on where asyncpg has its like, left out where it only tunes libpq, and refused by name otherwise:
to ignore one that is not known here could mean to connect in another way than was asked for.
"""

from typing import Any
from urllib.parse import urlencode

from sqlalchemy.engine import URL

from holdfast.errors import SettingsError

CONNECT_TIMEOUT_S = 3.0

_SETTINGS = {
    "application_name": "holdfast",
    "jit": "off",
    # A plan made when the tables were empty must not be kept: a sale fills them within seconds.
    "plan_cache_mode": "force_custom_plan",
}
_RENAMED = {"sslmode": "ssl", "dbname": "database"}
_PASSED_ON = {"host", "port", "user", "password", "passfile", "database", "ssl", "target_session_attrs", "krbsrvname"}
_NUMBERS = {"statement_cache_size", "prepared_statement_cache_size"}
# asyncpg reads these from an address only, and not as arguments.
_IN_ADDRESS = {"sslrootcert", "sslcert", "sslkey", "sslcrl", "sslpassword"}
_SENT_TO_SERVER = {"application_name", "options"}
# How libpq goes about it, which asyncpg decides for itself. `channel_binding` is among them because hosted databases
# put it into every address they hand out.
_LEFT_OUT = {
    "channel_binding", "gssencmode", "sslcompression", "sslsni", "sslnegotiation", "keepalives", "keepalives_idle",
    "keepalives_interval", "keepalives_count", "tcp_user_timeout", "client_encoding", "fallback_application_name",
    "load_balance_hosts",
}  # fmt: skip


def for_asyncpg(url: URL) -> tuple[URL, dict[str, Any]]:
    """The address without what asyncpg would stumble over, and the arguments of `connect` that stand for it."""
    given = {_RENAMED.get(name, name): value for name, value in url.query.items()}
    known = _PASSED_ON | _NUMBERS | _IN_ADDRESS | _SENT_TO_SERVER | _LEFT_OUT | {"connect_timeout"}
    if unknown := sorted(given.keys() - known):
        raise SettingsError(f"HOLDFAST_DATABASE_URL: the option {unknown[0]} is not known; remove it")
    numbers = {name: _number(name, given[name]) for name in given.keys() & {*_NUMBERS, "connect_timeout"}}
    arguments: dict[str, Any] = {
        # To libpq, no time means to wait for ever, which nobody wants of a server.
        "timeout": float(numbers.pop("connect_timeout", 0)) or CONNECT_TIMEOUT_S,
        "server_settings": _SETTINGS | {name: given[name] for name in given.keys() & _SENT_TO_SERVER},
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
