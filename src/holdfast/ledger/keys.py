"""Service keys: who may operate what. Only a hash of each secret is kept."""

import hashlib
import hmac
import secrets
from enum import StrEnum

from msgspec import Struct
from sqlalchemy import Connection, Row, insert, select, update

from holdfast.ledger.tables import service_keys


class Scope(StrEnum):
    INVENTORY = "inventory"
    SALES = "sales"
    OPERATE = "operate"


EVERY_SCOPE = frozenset(Scope)


class ServiceKey(Struct, frozen=True):
    key_id: str
    name: str
    scopes: frozenset[Scope]
    created_at: int
    revoked_at: int | None


def create_key(connection: Connection, name: str, scopes: frozenset[Scope], now: int) -> tuple[ServiceKey, str]:
    """Make a key. Its text is returned this once and cannot be read again."""
    key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    values = {
        "key_id": key_id,
        "name": name,
        "secret_hash": _hash(secret),
        "scopes": " ".join(sorted(scopes)),
        "created_at": now,
    }
    connection.execute(insert(service_keys).values(values))
    return ServiceKey(key_id, name, scopes, now, None), f"hf_{key_id}_{secret}"


def find_key(connection: Connection, text: str) -> ServiceKey | None:
    """The key this text belongs to, unless there is none or it was revoked."""
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
    """Revoke a key. False if there is none by that id; revoking twice keeps the first time."""
    known = connection.execute(select(service_keys.c.key_id).where(service_keys.c.key_id == key_id)).one_or_none()
    unrevoked = (service_keys.c.key_id == key_id) & service_keys.c.revoked_at.is_(None)
    connection.execute(update(service_keys).where(unrevoked).values(revoked_at=now))
    return known is not None


def _hash(secret: str) -> str:
    # The secrets are 256 random bits, so a fast hash is as good as a slow one.
    return hashlib.sha256(secret.encode()).hexdigest()


def _from_row(row: Row[tuple[object, ...]]) -> ServiceKey:
    scopes = frozenset(Scope(scope) for scope in row.scopes.split())
    return ServiceKey(row.key_id, row.name, scopes, row.created_at, row.revoked_at)
