"""Operators who are signed in at the console. Only a hash of each session's secret is kept.

A session may do what its key may do now: a key that was revoked, or replaced where it has every scope, ends it.
"""

import hashlib
import hmac
import secrets

from msgspec import Struct
from sqlalchemy import Column, Connection, Index, String, Table, delete, insert, select

from holdfast.ledger.keys import EVERY_SCOPE, Scope
from holdfast.ledger.tables import Id, Millis, metadata, service_keys

console_sessions = Table(
    "console_sessions",
    metadata,
    Column("session_id", Id, primary_key=True),
    Column("secret_hash", String, nullable=False),
    # Of the key it was begun with; of the one with every scope, which is in no table, a hash instead.
    Column("key_id", Id),
    Column("key_hash", String),
    Column("created_at", Millis, nullable=False),
    Column("expires_at", Millis, nullable=False),
    Index("console_sessions_by_expiry", "expires_at"),
)


class Session(Struct, frozen=True):
    session_id: str
    # None for the key with every scope.
    key_id: str | None
    key_name: str | None
    scopes: frozenset[Scope]
    expires_at: int
    left_s: float


class KeyUsed(Struct, frozen=True):
    """The key somebody signs in with: one of the table, or the hash of the one with every scope."""

    key_id: str | None = None
    key_hash: str | None = None


def hash_of(secret: str) -> str:
    # Sessions' secrets are 256 random bits, so a fast hash is as good as a slow one.
    return hashlib.sha256(secret.encode()).hexdigest()


def begin_session(connection: Connection, used: KeyUsed, now: int, lasts_ms: int) -> str:
    """A new session's token. It is returned this once and cannot be read again."""
    connection.execute(delete(console_sessions).where(console_sessions.c.expires_at <= now))
    session_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    values = {
        "session_id": session_id,
        "secret_hash": hash_of(secret),
        "key_id": used.key_id,
        "key_hash": used.key_hash,
        "created_at": now,
        "expires_at": now + lasts_ms,
    }
    connection.execute(insert(console_sessions).values(values))
    return f"{session_id}.{secret}"


def find_session(connection: Connection, token: str, service_key_hash: str, now: int) -> Session | None:
    """The session of a token, unless it is over or its key is."""
    session_id, _, secret = token.partition(".")
    joined = console_sessions.outerjoin(service_keys, service_keys.c.key_id == console_sessions.c.key_id)
    columns = (console_sessions, service_keys.c.name, service_keys.c.scopes, service_keys.c.revoked_at)
    row = connection.execute(
        select(*columns).select_from(joined).where(console_sessions.c.session_id == session_id)
    ).one_or_none()
    if row is None or row.expires_at <= now or not hmac.compare_digest(row.secret_hash, hash_of(secret)):
        return None
    left_s = (row.expires_at - now) / 1000
    if row.key_id is None:
        is_same = hmac.compare_digest(row.key_hash or "", service_key_hash)
        return Session(session_id, None, None, EVERY_SCOPE, row.expires_at, left_s) if is_same else None
    if row.name is None or row.revoked_at is not None:
        return None
    scopes = frozenset(Scope(scope) for scope in row.scopes.split())
    return Session(session_id, row.key_id, row.name, scopes, row.expires_at, left_s)


def end_session(connection: Connection, token: str) -> None:
    session_id, _, secret = token.partition(".")
    is_it = (console_sessions.c.session_id == session_id, console_sessions.c.secret_hash == hash_of(secret))
    connection.execute(delete(console_sessions).where(*is_it))
