"""Named operators: invited by email address, with a role, until they are disabled.

An invitation is a link that sets a password, once, within a week. Only its hash is stored. An operator who signs in by
OIDC needs no password; the first sign-in links the invited address to the issuer's subject, and from then on only the
subject counts, because addresses change hands.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, delete, func, insert, select, update

from holdfast.ledger.access.keys import EVERY_SCOPE, Scope, revoke_key, scopes_of
from holdfast.ledger.tables.access import console_sessions, operators, service_keys

INVITATION_MS = 7 * 24 * 3_600_000


class Role(StrEnum):
    VIEWER = "viewer"
    SUPPORT = "support"
    SELLER = "seller"
    FINANCE = "finance"
    ADMIN = "admin"


SCOPES_OF_ROLE: Mapping[Role, frozenset[Scope]] = {
    Role.VIEWER: frozenset({Scope.READ}),
    Role.SUPPORT: frozenset({Scope.READ, Scope.OPERATE}),
    Role.SELLER: frozenset({Scope.READ, Scope.INVENTORY, Scope.SALES}),
    Role.FINANCE: frozenset({Scope.READ, Scope.OPERATE, Scope.MONEY}),
    Role.ADMIN: EVERY_SCOPE,
}


class Operator(Struct, frozen=True):
    operator_id: str
    email: str
    name: str
    role: Role
    created_at: int
    created_by: str | None
    joined_at: int | None
    disabled_at: int | None
    invitation_expires_at: int | None
    password_hash: str | None = None
    issuer: str | None = None
    subject: str | None = None

    @property
    def scopes(self) -> frozenset[Scope]:
        return SCOPES_OF_ROLE[self.role]


def invite(
    connection: Connection, email: str, name: str, role: Role, now: int, created_by: str | None
) -> tuple[Operator, str]:
    """Create an operator, or re-invite a known one, who may then sign in again with this role.

    The token of the invitation is returned once.
    """
    token = secrets.token_urlsafe(32)
    values: dict[str, object] = {"name": name, "role": role.value, "invitation_hash": _hash(token)}
    values |= {"invitation_expires_at": now + INVITATION_MS, "disabled_at": None}
    has_email = select(operators).where(operators.c.email == email.lower())
    known = connection.execute(has_email.with_for_update()).one_or_none()
    operator_id = secrets.token_hex(6) if known is None else known.operator_id
    if known is None:
        made = {"operator_id": operator_id, "email": email.lower(), "created_at": now, "created_by": created_by}
        connection.execute(insert(operators).values(**made, **values))
    else:
        if known.disabled_at is not None:
            # Someone else may know the old password or own the old identity, which may be why the operator was
            # disabled.
            values |= {"password_hash": None, "issuer": None, "subject": None}
        connection.execute(update(operators).where(operators.c.operator_id == operator_id).values(**values))
        # Existing sessions still have the old role.
        end_sessions_of(connection, operator_id)
        _revoke_keys_beyond(connection, operator_id, role, now)
    operator = find_operator(connection, operator_id)
    assert operator is not None
    return operator, f"{operator_id}.{token}"


def _revoke_keys_beyond(connection: Connection, operator_id: str, role: Role, now: int) -> None:
    """Revoke the operator's keys that may do more than this role."""
    made = select(service_keys).where(service_keys.c.created_by == operator_id, service_keys.c.revoked_at.is_(None))
    for key in connection.execute(made).all():
        if not scopes_of(key) <= SCOPES_OF_ROLE[role]:
            revoke_key(connection, key.key_id, now)


def is_open_invitation(connection: Connection, token: str, now: int) -> bool:
    return _open_invitation(connection, token, now) is not None


def accept(connection: Connection, token: str, password_hash: str, now: int) -> Operator | None:
    """Set the password of an invitation. None if it does not exist, was used or has expired."""
    row = _open_invitation(connection, token, now)
    if row is None:
        return None
    operator_id = row.operator_id
    used = {"invitation_hash": None, "invitation_expires_at": None, "password_hash": password_hash}
    joined = {"joined_at": row.joined_at or now}
    is_it = (operators.c.operator_id == operator_id, operators.c.invitation_hash == row.invitation_hash)
    if not connection.execute(update(operators).where(*is_it).values(**used, **joined)).rowcount:
        return None
    end_sessions_of(connection, operator_id)
    return find_operator(connection, operator_id)


def _open_invitation(connection: Connection, token: str, now: int) -> Row[Any] | None:
    operator_id, _, secret = token.partition(".")
    row = connection.execute(select(operators).where(operators.c.operator_id == operator_id)).one_or_none()
    if row is None or row.disabled_at is not None or row.invitation_hash is None or row.invitation_expires_at <= now:
        return None
    return row if hmac.compare_digest(row.invitation_hash, _hash(secret)) else None


def find_operator(connection: Connection, operator_id: str) -> Operator | None:
    return _one(connection, operators.c.operator_id == operator_id)


def find_by_email(connection: Connection, email: str) -> Operator | None:
    return _one(connection, operators.c.email == email.lower())


def find_by_subject(connection: Connection, issuer: str, subject: str) -> Operator | None:
    return _one(connection, (operators.c.issuer == issuer) & (operators.c.subject == subject))


def link_subject(connection: Connection, operator_id: str, issuer: str, subject: str, now: int) -> bool:
    """Returns whether it is linked now. An operator has one identity, which never changes."""
    values: dict[str, Any] = {
        "issuer": issuer,
        "subject": subject,
        "joined_at": func.coalesce(operators.c.joined_at, now),
    }
    values |= {"invitation_hash": None, "invitation_expires_at": None}
    is_free = (operators.c.operator_id == operator_id, operators.c.subject.is_(None))
    return bool(connection.execute(update(operators).where(*is_free).values(**values)).rowcount)


def list_operators(connection: Connection) -> list[Operator]:
    return [_from_row(row) for row in connection.execute(select(operators).order_by(operators.c.created_at))]


def disable(connection: Connection, operator_id: str, now: int) -> Operator | None:
    """End their sessions, revoke the keys they made, and reject them from now on. A repeat keeps the first time."""
    is_it = operators.c.operator_id == operator_id
    values = {"disabled_at": func.coalesce(operators.c.disabled_at, now), "invitation_hash": None}
    connection.execute(update(operators).where(is_it).values(**values, invitation_expires_at=None))
    end_sessions_of(connection, operator_id)
    made = select(service_keys.c.key_id).where(service_keys.c.created_by == operator_id)
    for key_id in connection.execute(made).scalars().all():
        revoke_key(connection, key_id, now)
    return find_operator(connection, operator_id)


def end_sessions_of(connection: Connection, operator_id: str) -> None:
    connection.execute(delete(console_sessions).where(console_sessions.c.operator_id == operator_id))


def lock_enabled_operator(connection: Connection, operator_id: str) -> bool:
    """Whether they may still sign in; locked until the transaction ends."""
    is_it = (operators.c.operator_id == operator_id, operators.c.disabled_at.is_(None))
    return connection.execute(select(operators.c.operator_id).where(*is_it).with_for_update()).scalar() is not None


def _one(connection: Connection, is_it: Any) -> Operator | None:
    row = connection.execute(select(operators).where(is_it)).one_or_none()
    return None if row is None else _from_row(row)


def _from_row(row: Row[Any]) -> Operator:
    known = {name: value for name, value in row._mapping.items() if name in Operator.__struct_fields__}  # noqa: SLF001 - the documented way
    return Operator(**known | {"role": Role(row.role)})


def _hash(secret: str) -> str:
    # 256 random bits, so a fast hash is as good as a slow one.
    return hashlib.sha256(secret.encode()).hexdigest()
