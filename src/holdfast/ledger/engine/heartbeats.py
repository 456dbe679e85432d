"""Heartbeats in the ledger. No two processes write the same row, so a frozen process blocks no other."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, bindparam, delete, func, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.ledger.tables.heartbeats import heartbeats
from holdfast.ledger.tables.stock import pools

# The problem of each role of a process; None if it works.
Roles = Mapping[str, str | None]

_all = select(heartbeats.c.process, heartbeats.c.at, heartbeats.c.roles)
_others = _all.where(heartbeats.c.process != bindparam("own"))
_decode = msgspec.json.Decoder(dict[str, str | None]).decode


class Heartbeat(Struct, frozen=True):
    process: str
    at: int
    roles: Roles


def beat(
    connection: Connection, process: str, revision: str, roles: Roles, now: int, padding: bytes | None
) -> list[Heartbeat]:
    """Write the row of a process; returns the rows of the others."""
    row = {"process": process, "at": now, "roles": msgspec.json.encode(roles).decode(), "padding": padding}
    connection.execute(_WRITE[connection.dialect.name], row | {"revision": revision})
    found = connection.execute(_others, {"own": process})
    return [Heartbeat(other, at, _decode(text)) for other, at, text in found]


def _write(insert: Any) -> Any:
    written = insert(heartbeats)
    changed = {name: written.excluded[name] for name in ("at", "roles", "padding")}
    return written.on_conflict_do_update(index_elements=["process"], set_=changed)


_WRITE = {"sqlite": _write(sqlite_insert), "postgresql": _write(postgresql_insert)}


def last_written_time(connection: Connection) -> int:
    """The latest time at which a process wrote: a decision, or a heartbeat, which each live process writes once a
    second."""
    latest = [connection.execute(one).scalar_one() or 0 for one in _LATEST]
    return max(latest)


_LATEST = (select(func.max(pools.c.decided_at)), select(func.max(heartbeats.c.at)))


def heartbeats_since(connection: Connection, at: int) -> list[Heartbeat]:
    found = connection.execute(_all.where(heartbeats.c.at >= at))
    return [Heartbeat(process, written_at, _decode(text)) for process, written_at, text in found]


def processes_before(connection: Connection, revision: str, *, since: int) -> int:
    """How many processes of an older revision have written since then."""
    older = (heartbeats.c.at >= since) & (heartbeats.c.revision < revision)
    return connection.execute(select(func.count()).select_from(heartbeats).where(older)).scalar_one()


def prune_heartbeats(connection: Connection, older_than: int, *, limit: int) -> int:
    """Delete the heartbeats of processes that ended."""
    old = select(heartbeats.c.process).where(heartbeats.c.at < older_than).limit(limit)
    return connection.execute(delete(heartbeats).where(heartbeats.c.process.in_(old))).rowcount
