"""Opens sessions on PostgreSQL whose server-side limits release the locks of a lost host.

The model. A host can be lost at any moment: frozen, or cut off without notice. Its locks must soon be free again, and
everything that waits on its behalf must end. So the limits (`limits.py`) are enforced by the server, which gets them
when a session starts. They cost no round trip. Options in the user's URL win. Both ends also check whether the other
still exists (TCP keepalive).

What happens when it fails. PgBouncer refuses settings that it does not know. Sessions then start without them, and
without named statements, which its older versions cannot route. The limits of a pool's lock still hold, because the
statement that takes it sets them (`ledger/stock/batch.py`). The others must be set for the role in the database:
`holdfast doctor` says how. An older PostgreSQL refuses settings that it lacks; sessions then start without those.
"""

import re
import socket
from collections.abc import Mapping
from itertools import count
from typing import Any
from uuid import uuid4

import asyncpg
import structlog

log = structlog.get_logger()

PLANNING = {
    "jit": "off",
    # A plan made while the tables were empty must not be kept: a sale fills them within seconds.
    "plan_cache_mode": "force_custom_plan",
}
# Keeps the sessions of a lost host from occupying connections for hours. In seconds, and milliseconds.
_SERVER_KEEPALIVES = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "3",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
# Since PostgreSQL 14: ends a statement soon after its client has closed the connection.
_NEWER = {"client_connection_check_interval": "1000"}

# By their names in libpq.
KEEPALIVES = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
_SOCKET_OPTIONS = {
    "keepalives_idle": "TCP_KEEPIDLE",
    "keepalives_interval": "TCP_KEEPINTVL",
    "keepalives_count": "TCP_KEEPCNT",
    "tcp_user_timeout": "TCP_USER_TIMEOUT",
}

_REFUSED = (
    asyncpg.UndefinedObjectError,
    asyncpg.InvalidParameterValueError,
    asyncpg.CantChangeRuntimeParamError,
    asyncpg.ProtocolViolationError,
)
_PROCESS = uuid4().hex
_numbers = count()
_OPTION = re.compile(r"(?:-c\s*|--)([\w.-]+)=")


class Sessions:
    """Opens sessions. `given` holds the URL's options for the server and for the socket."""

    def __init__(
        self,
        given: Mapping[str, str],
        keepalives: Mapping[str, int],
        limits: Mapping[str, str],
        *,
        named_statements: bool = True,
    ) -> None:
        theirs = {name.replace("-", "_") for name in _OPTION.findall(given.get("options", ""))}
        known = {"application_name": "holdfast", **PLANNING, **limits, **_SERVER_KEEPALIVES}
        ours = {name: value for name, value in known.items() if name not in theirs}
        newer = {name: value for name, value in _NEWER.items() if name not in theirs}
        without = {"application_name": "holdfast", **given}
        # Settings to try, the most complete first.
        self._settings = [{**ours, **newer, **given}, {**ours, **given}, without]
        self._first = 0
        self._keepalives = {**KEEPALIVES, **keepalives}
        self._named_statements = named_statements

    def statement_name(self) -> str:
        """An unnamed statement is parsed and executed together, so any of the server's sessions will do. No two
        processes use the same name, because a pooler might mix up their sessions."""
        return f"holdfast_{_PROCESS}_{next(_numbers):x}" if self._named_statements else ""

    async def open(self, *arguments: Any, **options: Any) -> asyncpg.Connection:
        """As `asyncpg.connect`."""
        last = len(self._settings) - 1
        while True:
            number = self._first
            if number == last:
                self._named_statements, options["statement_cache_size"] = False, 0
            try:
                connection = await asyncpg.connect(*arguments, server_settings=self._settings[number], **options)
            except _REFUSED as exc:
                # PgBouncer has only one code for all errors.
                is_other = isinstance(exc, asyncpg.ProtocolViolationError) and "startup parameter" not in str(exc)
                if number == last or is_other:
                    raise
                log.warning("session_settings_refused", error=str(exc))
                self._first = max(self._first, number + 1)
            else:
                transport = connection._transport  # noqa: SLF001 - asyncpg has no option for it
                keep_alive(transport.get_extra_info("socket"), self._keepalives)
                return connection


def keep_alive(connected: socket.socket, options: Mapping[str, int]) -> None:
    if connected.family == socket.AF_UNIX or not options["keepalives"]:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, number in _SOCKET_OPTIONS.items():
        # 0 means the system's default. Not every system has each of them.
        if options[name] and hasattr(socket, number):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, number), options[name])
