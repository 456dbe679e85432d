"""Revoked buyers and revoked tokens of theirs, until each revocation expires."""

from enum import StrEnum

from msgspec import Struct
from sqlalchemy import Connection, Table, delete, func, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.ledger.tables.access import revoked_buyers, revoked_tokens


class RevocationKind(StrEnum):
    BUYER = "buyer"
    TOKEN = "token"  # noqa: S105 - not a secret


_TABLES: dict[RevocationKind, Table] = {RevocationKind.BUYER: revoked_buyers, RevocationKind.TOKEN: revoked_tokens}
# No token is valid for longer (`access/identity.py`).
KEPT_MS = 30 * 24 * 3_600_000
# Changes whenever a row is added, changed, removed or expires.
Revision = tuple[tuple[int, int, int], ...]


class Revocation(Struct, frozen=True):
    """`id` is the buyer's ID (`sub`) or the token's (`jti`)."""

    kind: RevocationKind
    id: str
    revoked_at: int
    expires_at: int
    reason: str | None
    revoked_by: str


def revoke(connection: Connection, revocation: Revocation) -> None:
    """A repeat replaces the existing revocation."""
    table = _TABLES[revocation.kind]
    insert = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    values = {
        "revoked_at": revocation.revoked_at,
        "expires_at": revocation.expires_at,
        "reason": revocation.reason,
        "revoked_by": revocation.revoked_by,
    }
    key = next(iter(table.primary_key.columns))
    written = insert(table).values({key.name: revocation.id, **values})
    connection.execute(written.on_conflict_do_update(index_elements=[key], set_=values))


def lift(connection: Connection, kind: RevocationKind, id_: str) -> bool:
    """False if it was not revoked."""
    table = _TABLES[kind]
    key = next(iter(table.primary_key.columns))
    return connection.execute(delete(table).where(key == id_)).rowcount > 0


def revocations(connection: Connection, now: int, *, limit: int) -> list[Revocation]:
    """The revocations in force, newest first."""
    found = list[Revocation]()
    for kind, table in _TABLES.items():
        wanted = select(table).where(table.c.expires_at > now).order_by(table.c.revoked_at.desc()).limit(limit)
        found += [Revocation(kind, *row) for row in connection.execute(wanted)]
    return sorted(found, key=lambda one: -one.revoked_at)[:limit]


def revision(connection: Connection, now: int) -> Revision:
    """Identifies the set of revocations in force."""
    return tuple(_revision_of(connection, table, now) for table in _TABLES.values())


def _revision_of(connection: Connection, table: Table, now: int) -> tuple[int, int, int]:
    sums = (
        func.count(),
        func.coalesce(func.sum(table.c.revoked_at), 0),
        func.coalesce(func.sum(table.c.expires_at), 0),
    )
    count, revoked, expires = connection.execute(select(*sums).where(table.c.expires_at > now)).one()
    return int(count), int(revoked), int(expires)


def revoked_ids(connection: Connection, now: int) -> tuple[frozenset[str], frozenset[str]]:
    """Revoked buyers, and revoked tokens."""
    buyers = select(revoked_buyers.c.buyer_id).where(revoked_buyers.c.expires_at > now)
    tokens = select(revoked_tokens.c.token_id).where(revoked_tokens.c.expires_at > now)
    return frozenset(connection.execute(buyers).scalars()), frozenset(connection.execute(tokens).scalars())


def prune_revocations(connection: Connection, older_than: int, *, limit: int) -> int:
    """Delete the revocations that expired before this time."""
    count = 0
    for table in _TABLES.values():
        key = next(iter(table.primary_key.columns))
        old = select(key).where(table.c.expires_at < older_than).limit(limit)
        count += connection.execute(delete(table).where(key.in_(old))).rowcount
    return count
