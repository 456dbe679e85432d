"""Service keys. Only a hash of each secret is stored."""

import hashlib
import hmac
import secrets
from enum import StrEnum
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, bindparam, insert, select, update

from holdfast.ledger.tables.access import service_keys


class Scope(StrEnum):
    READ = "read"
    INVENTORY = "inventory"
    SALES = "sales"
    OPERATE = "operate"
    MONEY = "money"
    ADMIN = "admin"


EVERY_SCOPE = frozenset(Scope)
# `money` and `admin` became scopes of their own in this version.
SCOPES_VERSION = 2


# Built once: it runs for every request with a service key.
_STANDING = select(service_keys.c.key_id).where(
    service_keys.c.key_id == bindparam("key_id"), service_keys.c.revoked_at.is_(None)
)


class ServiceKey(Struct, frozen=True):
    key_id: str
    name: str
    scopes: frozenset[Scope]
    created_at: int
    revoked_at: int | None
    created_by: str | None = None
    # Made with `operate` before `money` and `admin` were split off: it keeps both until it is rotated.
    is_legacy: bool = False


def create_key(
    connection: Connection, name: str, scopes: frozenset[Scope], now: int, created_by: str | None = None
) -> tuple[ServiceKey, str]:
    """Create a key. Its text is returned once and cannot be read again."""
    key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    values = {
        "key_id": key_id,
        "name": name,
        "secret_hash": _hash(secret),
        "scopes": " ".join(sorted(scopes)),
        "created_at": now,
        "created_by": created_by,
        "scopes_version": SCOPES_VERSION,
    }
    connection.execute(insert(service_keys).values(values))
    return ServiceKey(key_id, name, scopes, now, None, created_by), f"hf_{key_id}_{secret}"


def find_key(connection: Connection, text: str) -> ServiceKey | None:
    """The key with this text; None if it does not exist or was revoked."""
    prefix, _, rest = text.partition("_")
    key_id, _, secret = rest.partition("_")
    if prefix != "hf" or not secret:
        return None
    row = connection.execute(select(service_keys).where(service_keys.c.key_id == key_id)).one_or_none()
    if row is None or row.revoked_at is not None or not hmac.compare_digest(row.secret_hash, _hash(secret)):
        return None
    return _from_row(row)


def list_keys(connection: Connection) -> list[ServiceKey]:
    return [_from_row(row) for row in connection.execute(select(service_keys).order_by(service_keys.c.created_at))]


def revoke_key(connection: Connection, key_id: str, now: int) -> bool:
    """Revoke a key and the keys made by it. False if there is no such key; a repeat keeps the first time."""
    lost: set[str] = set()
    # Repeat until none is left: one of these keys may have been creating another while it held its row lock.
    while (found := lineage(connection, key_id)) != lost:
        lost = found
        unrevoked = service_keys.c.key_id.in_(lost) & service_keys.c.revoked_at.is_(None)
        connection.execute(update(service_keys).where(unrevoked).values(revoked_at=now))
    return bool(lost)


def lineage(connection: Connection, key_id: str) -> set[str]:
    """A key, the keys made by it, and so on; empty if there is no such key."""
    tree = select(service_keys.c.key_id).where(service_keys.c.key_id == key_id).cte("tree", recursive=True)
    tree = tree.union(select(service_keys.c.key_id).where(service_keys.c.created_by == tree.c.key_id))
    return set(connection.execute(select(tree.c.key_id)).scalars())


def is_standing_key(connection: Connection, key_id: str) -> bool:
    """Whether the key is not revoked."""
    return connection.execute(_STANDING, {"key_id": key_id}).scalar() is not None


def lock_standing_key(connection: Connection, key_id: str) -> bool:
    """Like `is_standing_key`, and locks the key until the transaction ends."""
    return connection.execute(_STANDING.with_for_update(), {"key_id": key_id}).scalar() is not None


def legacy_keys(connection: Connection) -> list[ServiceKey]:
    return [key for key in list_keys(connection) if key.is_legacy and key.revoked_at is None]


def _hash(secret: str) -> str:
    # The secrets are 256 random bits, so a fast hash is as good as a slow one.
    return hashlib.sha256(secret.encode()).hexdigest()


def _from_row(row: Row[tuple[object, ...]]) -> ServiceKey:
    scopes = scopes_of(row)
    return ServiceKey(
        row.key_id, row.name, scopes, row.created_at, row.revoked_at, row.created_by, is_legacy=is_legacy(row)
    )


def scopes_of(row: Row[Any]) -> frozenset[Scope]:
    return frozenset(Scope(scope) for scope in row.scopes.split())


def is_legacy(row: Row[Any]) -> bool:
    return row.scopes_version < SCOPES_VERSION and Scope.OPERATE in scopes_of(row)
