"""Positions in PostgreSQL's write-ahead log, as plain numbers that can be compared."""

import re

from sqlalchemy import Connection, text

# Commits are at or before the flushed end of the log, unless they do not wait for the disk.
_WRITTEN = text(
    "SELECT CAST((CASE current_setting('synchronous_commit') WHEN 'off' THEN pg_current_wal_insert_lsn()"
    " ELSE pg_current_wal_flush_lsn() END) - '0/0'::pg_lsn AS bigint)"
)
# Null on a server that is not, or no longer, a replica.
_REPLAYED = text(
    "SELECT CASE WHEN pg_is_in_recovery() THEN CAST(pg_last_wal_replay_lsn() - '0/0'::pg_lsn AS bigint) END"
)
_TOKEN = re.compile(r"p([0-9a-f]{1,16})\Z")


def written_position(connection: Connection) -> int:
    """Everything that the primary has committed is at or before it."""
    return int(connection.execute(_WRITTEN).scalar_one())


def replayed_position(connection: Connection) -> int | None:
    """Later statements on this connection see everything up to it. None if this is not a replica."""
    found: int | None = connection.execute(_REPLAYED).scalar_one()
    return found


def token_of(position: int) -> str:
    return f"p{position:x}"


def position_of(token: str | None) -> int | None:
    """None for a token that we did not issue."""
    found = None if token is None else _TOKEN.match(token)
    return None if found is None else int(found[1], 16)
