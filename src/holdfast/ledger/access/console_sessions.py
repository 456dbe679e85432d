"""Console sessions. Only a hash of each session's secret is stored.

A session has the current rights of its key or operator. It ends when the key is revoked, the operator is disabled, or
the admin key changes.
"""

import hashlib
import hmac
import secrets
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, delete, func, insert, select

from holdfast.ledger.access.keys import EVERY_SCOPE, Scope, is_legacy, scopes_of
from holdfast.ledger.access.operators import SCOPES_OF_ROLE, Role
from holdfast.ledger.tables.access import console_sessions, operators, service_keys

SESSIONS_PER_KEY = 10


class Session(Struct, frozen=True):
    session_id: str
    # None for the admin key.
    key_id: str | None
    name: str | None
    scopes: frozenset[Scope]
    expires_at: int
    left_s: float
    is_legacy: bool = False
    operator_id: str | None = None
    role: Role | None = None


class SignedIn(Struct, frozen=True):
    """Who signed in: a service key, the hash of the admin key, or an operator."""

    key_id: str | None = None
    key_hash: str | None = None
    operator_id: str | None = None
    method: str = "key"


class ListedSession(Struct, frozen=True):
    session_id: str
    operator_id: str | None
    key_id: str | None
    name: str | None
    method: str
    created_at: int
    expires_at: int


def hash_of(secret: str) -> str:
    # Sessions' secrets are 256 random bits, so a fast hash is as good as a slow one.
    return hashlib.sha256(secret.encode()).hexdigest()


def begin_session(connection: Connection, used: SignedIn, now: int, lasts_ms: int) -> str:
    """The token of a new session. It is returned once and cannot be read again."""
    connection.execute(delete(console_sessions).where(console_sessions.c.expires_at <= now))
    _end_oldest(connection, used)
    session_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    values = {
        "session_id": session_id,
        "secret_hash": hash_of(secret),
        "key_id": used.key_id,
        "key_hash": used.key_hash,
        "operator_id": used.operator_id,
        "method": used.method,
        "created_at": now,
        "expires_at": now + lasts_ms,
    }
    connection.execute(insert(console_sessions).values(values))
    return f"{session_id}.{secret}"


def _end_oldest(connection: Connection, used: SignedIn) -> None:
    """Make room for one more, so that sessions that nobody ends do not accumulate."""
    c = console_sessions.c
    if used.operator_id is not None:
        of_key = c.operator_id == used.operator_id
    else:
        of_key = c.key_hash == used.key_hash if used.key_id is None else c.key_id == used.key_id
    newest_first = select(c.session_id).where(of_key).order_by(c.created_at.desc(), c.session_id)
    surplus = connection.execute(newest_first.offset(SESSIONS_PER_KEY - 1)).scalars().all()
    connection.execute(delete(console_sessions).where(c.session_id.in_(surplus)))


def find_session(connection: Connection, token: str, service_key_hash: str, now: int) -> Session | None:
    """The session of a token, unless it has expired, its key was revoked or its operator disabled."""
    session_id, _, secret = token.partition(".")
    joined = console_sessions.outerjoin(service_keys, service_keys.c.key_id == console_sessions.c.key_id)
    key = [service_keys.c[name] for name in ("name", "scopes", "revoked_at", "scopes_version")]
    row = connection.execute(
        select(*console_sessions.c, *key).select_from(joined).where(console_sessions.c.session_id == session_id)
    ).one_or_none()
    if row is None or row.expires_at <= now or not hmac.compare_digest(row.secret_hash, hash_of(secret)):
        return None
    left_s = (row.expires_at - now) / 1000
    if row.operator_id is not None:
        return _of_operator(connection, row, left_s)
    if row.key_id is None:
        is_same = hmac.compare_digest(row.key_hash or "", service_key_hash)
        return Session(session_id, None, None, EVERY_SCOPE, row.expires_at, left_s) if is_same else None
    if row.name is None or row.revoked_at is not None:
        return None
    return Session(session_id, row.key_id, row.name, scopes_of(row), row.expires_at, left_s, is_legacy(row))


def _of_operator(connection: Connection, row: Row[Any], left_s: float) -> Session | None:
    is_it = (operators.c.operator_id == row.operator_id, operators.c.disabled_at.is_(None))
    operator = connection.execute(select(operators).where(*is_it)).one_or_none()
    if operator is None:
        return None
    role = Role(operator.role)
    who = {"operator_id": operator.operator_id, "role": role}
    return Session(row.session_id, None, operator.name, SCOPES_OF_ROLE[role], row.expires_at, left_s, **who)


def list_sessions(connection: Connection, now: int, operator_id: str | None = None) -> list[ListedSession]:
    """Newest first; all sessions, or those of one operator."""
    c = console_sessions.c
    joined = console_sessions.outerjoin(service_keys, service_keys.c.key_id == c.key_id)
    joined = joined.outerjoin(operators, operators.c.operator_id == c.operator_id)
    name = func.coalesce(operators.c.name, service_keys.c.name).label("name")
    shown = (c.session_id, c.operator_id, c.key_id, name, c.method, c.created_at, c.expires_at)
    wanted = select(*shown).select_from(joined).where(c.expires_at > now).order_by(c.created_at.desc(), c.session_id)
    if operator_id is not None:
        wanted = wanted.where(c.operator_id == operator_id)
    return [ListedSession(*row) for row in connection.execute(wanted)]


def revoke_session(connection: Connection, session_id: str, operator_id: str | None = None) -> bool:
    """Whether there was one. With an operator given, only that operator's sessions count."""
    is_it = [console_sessions.c.session_id == session_id]
    if operator_id is not None:
        is_it.append(console_sessions.c.operator_id == operator_id)
    return bool(connection.execute(delete(console_sessions).where(*is_it)).rowcount)


def is_standing_session(connection: Connection, session_id: str) -> bool:
    """Whether the session has not ended."""
    wanted = console_sessions.c.session_id == session_id
    return connection.execute(select(console_sessions.c.session_id).where(wanted)).scalar() is not None


def end_session(connection: Connection, token: str) -> None:
    session_id, _, secret = token.partition(".")
    is_it = (console_sessions.c.session_id == session_id, console_sessions.c.secret_hash == hash_of(secret))
    connection.execute(delete(console_sessions).where(*is_it))
