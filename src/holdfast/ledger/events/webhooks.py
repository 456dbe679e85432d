"""Webhook subscriptions."""

import base64
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Row, delete, func, insert, select, update

from holdfast.ledger.tables.stock import events
from holdfast.ledger.tables.webhooks import webhooks

# How long the old secret stays valid after a rotation.
ROTATION_MS = 24 * 3_600_000


class Webhook(Struct, frozen=True):
    webhook_id: str
    url: str
    events: tuple[str, ...]
    secret: str
    description: str | None
    relayed_seq: int
    created_at: int
    disabled_at: int | None = None
    previous_secret: str | None = None
    previous_until: int | None = None

    def secrets_at(self, now: int) -> list[str]:
        """The secrets to sign with, the current one first."""
        if self.previous_secret is None or self.previous_until is None or self.previous_until <= now:
            return [self.secret]
        return [self.secret, self.previous_secret]

    def __repr__(self) -> str:
        """Without its secrets, so that no log contains them."""
        return f"Webhook({self.webhook_id!r})"


def new_secret() -> str:
    """In the format of Standard Webhooks: 24 to 64 random bytes."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


def create_webhook(
    connection: Connection, url: str, patterns: Iterable[str], description: str | None, now: int
) -> Webhook:
    """The webhook receives events from now on."""
    webhook = Webhook(
        f"wh_{secrets.token_hex(10)}",
        url,
        tuple(sorted(set(patterns))),
        new_secret(),
        description,
        latest_seq(connection),
        now,
    )
    values = {name: getattr(webhook, name) for name in webhook.__struct_fields__}
    connection.execute(insert(webhooks).values(values | {"events": _encode(webhook.events)}))
    return webhook


def latest_seq(connection: Connection) -> int:
    return int(connection.execute(_LATEST_SEQ).scalar_one())


_LATEST_SEQ = select(func.coalesce(func.max(events.c.seq), 0))


def list_webhooks(connection: Connection) -> list[Webhook]:
    return [_from_row(row) for row in connection.execute(select(webhooks).order_by(webhooks.c.created_at))]


def find_webhook(connection: Connection, webhook_id: str) -> Webhook | None:
    row = connection.execute(select(webhooks).where(webhooks.c.webhook_id == webhook_id)).one_or_none()
    return None if row is None else _from_row(row)


def change_webhook(connection: Connection, webhook_id: str, changes: Mapping[str, Any]) -> Webhook | None:
    """A webhook that is enabled again continues where it stopped, so no event is lost."""
    values = dict(changes)
    if "events" in values:
        values["events"] = _encode(sorted(set(values["events"])))
    if values:
        connection.execute(update(webhooks).where(webhooks.c.webhook_id == webhook_id).values(values))
    return find_webhook(connection, webhook_id)


def disable_webhooks(connection: Connection, webhook_ids: Iterable[str], now: int) -> None:
    enabled = webhooks.c.webhook_id.in_(list(webhook_ids)) & webhooks.c.disabled_at.is_(None)
    connection.execute(update(webhooks).where(enabled).values(disabled_at=now))


def rotate_secret(connection: Connection, webhook_id: str, now: int) -> Webhook | None:
    """A new secret; the previous one also signs for a while."""
    values = {"previous_secret": webhooks.c.secret, "previous_until": now + ROTATION_MS, "secret": new_secret()}
    connection.execute(update(webhooks).where(webhooks.c.webhook_id == webhook_id).values(values))
    return find_webhook(connection, webhook_id)


def delete_webhook(connection: Connection, webhook_id: str) -> None:
    connection.execute(delete(webhooks).where(webhooks.c.webhook_id == webhook_id))


def _encode(patterns: Sequence[str]) -> str:
    return msgspec.json.encode(patterns).decode()


def _from_row(row: Row[Any]) -> Webhook:
    return Webhook(
        row.webhook_id,
        row.url,
        tuple(msgspec.json.decode(row.events)),
        row.secret,
        row.description,
        row.relayed_seq,
        row.created_at,
        row.disabled_at,
        row.previous_secret,
        row.previous_until,
    )
