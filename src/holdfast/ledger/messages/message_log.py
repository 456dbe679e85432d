"""Messages to buyers: created once, claimed before they are sent, and kept as a log.

A message is claimed (`sending`) in one transaction and sent after it. The outcome is stored in another transaction. A
process that dies in between leaves a claim, which expires. Whether the message left is then not known, so it becomes
`unknown` and is not sent again unless an operator requests it. A message that was certainly not accepted is retried.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Row, delete, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.ledger.messages.contacts import Contact, find_contacts
from holdfast.ledger.sales.sale_lists import find_sales
from holdfast.ledger.tables.messages import messages

MAIL, PUSH = "mail", "push"
_INSERTED_MAX = 1_000


class NewMessage(Struct, frozen=True):
    """`about`: an event, a place or a sale, with one message each. `target`: a device; "" for an address."""

    buyer_id: str
    sale_id: str
    kind: str
    channel: str
    about: str
    facts: dict[str, Any]
    expires_at: int
    target: str = ""

    @property
    def message_id(self) -> str:
        named = f"{self.kind}\n{self.about}\n{self.buyer_id}\n{self.channel}\n{self.target}"
        return f"msg_{sha256(named.encode()).hexdigest()[:32]}"


class Message(Struct, frozen=True):
    message_id: str
    buyer_id: str
    sale_id: str
    kind: str
    channel: str
    facts: str
    state: str
    attempts: int
    due_at: int
    expires_at: int
    fence: int
    reason: str | None
    created_at: int
    done_at: int | None

    @property
    def values(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.facts)
        return found


class Claimed(Struct, frozen=True):
    message: Message
    contact: Contact
    sale: Any


class Outcome(Struct, frozen=True):
    """`state`: sent, failed or unknown for good; waiting: to be retried at `due_at`."""

    message: Message
    state: str
    reason: str | None = None
    due_at: int = 0
    # Whether this was an attempt. It was not if the message was never offered.
    is_attempt: bool = True


def add_messages(connection: Connection, new: Iterable[NewMessage], now: int) -> int:
    """Add messages that do not exist yet. Returns how many were added."""
    rows = [
        {
            "message_id": one.message_id,
            "buyer_id": one.buyer_id,
            "sale_id": one.sale_id,
            "kind": one.kind,
            "channel": one.channel,
            "facts": msgspec.json.encode({"target": one.target, **one.facts} if one.target else one.facts).decode(),
            "due_at": now,
            "expires_at": one.expires_at,
            "created_at": now,
        }
        for one in new
    ]
    insert, added = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert, 0
    for at in range(0, len(rows), _INSERTED_MAX):
        statement = insert(messages).values(rows[at : at + _INSERTED_MAX]).on_conflict_do_nothing()
        added += connection.execute(statement).rowcount
    return added


def anything_due(connection: Connection, channel: str, now: int) -> bool:
    is_due = (messages.c.channel == channel, messages.c.state == "waiting", messages.c.due_at <= now)
    overdue = (messages.c.state == "sending", messages.c.leased_until <= now)
    return any(
        connection.execute(select(messages.c.message_id).where(*each).limit(1)).first() is not None
        for each in (is_due, overdue)
    )


def expire_claims(connection: Connection, now: int) -> int:
    """Expire the claims of processes that died or hung: whether those messages were sent is unknown."""
    overdue = (messages.c.state == "sending", messages.c.leased_until <= now)
    values = {"state": "unknown", "reason": "interrupted", "done_at": now}
    return connection.execute(update(messages).where(*overdue).values(values)).rowcount


def claim(connection: Connection, channel: str, now: int, until: int, *, limit: int) -> list[Claimed]:
    """The next messages to send, with the data needed to write them. Messages that are no longer wanted are dropped."""
    is_due = (messages.c.channel == channel, messages.c.state == "waiting", messages.c.due_at <= now)
    wanted = select(messages).where(*is_due).order_by(messages.c.due_at).limit(limit)
    found = [_from_row(row) for row in connection.execute(wanted.with_for_update(skip_locked=True))]
    people = find_contacts(connection, [one.buyer_id for one in found])
    sales = {sale.sale_id: sale for sale in find_sales(connection, {one.sale_id for one in found})}
    claimed = list[Claimed]()
    for one in found:
        contact, sale = people.get(one.buyer_id), sales.get(one.sale_id)
        reason = _why_not(one, contact, None if sale is None else sale.notify, now)
        if reason is not None or contact is None:
            finish(connection, [Outcome(one, "dropped", reason, is_attempt=False)], now)
            continue
        claimed.append(Claimed(msgspec.structs.replace(one, fence=one.fence + 1), contact, sale))
    ids = [one.message.message_id for one in claimed]
    values = {"state": "sending", "leased_until": until, "fence": messages.c.fence + 1}
    connection.execute(update(messages).where(messages.c.message_id.in_(ids)).values(values))
    return claimed


def _why_not(message: Message, contact: Contact | None, notify: bool | None, now: int) -> str | None:
    if contact is None or (message.channel == MAIL and contact.email is None):
        return "opted_out"
    if notify is not True:
        return "switched_off"
    return "too_late" if message.expires_at <= now else None


def finish(connection: Connection, outcomes: Sequence[Outcome], now: int) -> None:
    """Only for messages that this process has still claimed."""
    for each in outcomes:
        is_ours = (messages.c.message_id == each.message.message_id, messages.c.fence == each.message.fence)
        is_open = messages.c.state.in_(("waiting", "sending"))
        values = {
            "state": each.state,
            "reason": each.reason,
            "attempts": each.message.attempts + each.is_attempt,
            "leased_until": 0,
            "due_at": each.due_at or each.message.due_at,
            "done_at": None if each.state == "waiting" else now,
        }
        connection.execute(update(messages).where(*is_ours, is_open).values(values))


def resend(connection: Connection, message_id: str, now: int, expires_at: int) -> Message | None:
    """Lets an operator resend a message that failed, was dropped or may be lost. None if it does not exist."""
    ended = (messages.c.message_id == message_id, messages.c.state.in_(("failed", "unknown", "dropped")))
    values = {"state": "waiting", "due_at": now, "expires_at": expires_at, "attempts": 0, "done_at": None}
    connection.execute(update(messages).where(*ended).values(values))
    row = connection.execute(select(messages).where(messages.c.message_id == message_id)).one_or_none()
    return None if row is None else _from_row(row)


def list_messages(
    connection: Connection,
    *,
    limit: int,
    buyer_id: str | None = None,
    sale_id: str | None = None,
    state: str | None = None,
    starting_after: str | None = None,
) -> tuple[list[Message], bool]:
    """Newest first."""
    key = (messages.c.created_at, messages.c.message_id)
    wanted = select(messages).order_by(*[column.desc() for column in key]).limit(limit + 1)
    for column, value in ((messages.c.buyer_id, buyer_id), (messages.c.sale_id, sale_id), (messages.c.state, state)):
        if value is not None:
            wanted = wanted.where(column == value)
    if starting_after is not None:
        after = select(*key).where(messages.c.message_id == starting_after).subquery()
        wanted = wanted.where(tuple_(*key) < select(*after.c).scalar_subquery())
    page = [_from_row(row) for row in connection.execute(wanted)]
    return page[:limit], len(page) > limit


def prune_messages(connection: Connection, older_than: int, *, limit: int) -> int:
    """Delete up to `limit` messages that are done."""
    old = select(messages.c.message_id).where(messages.c.created_at < older_than, messages.c.done_at.is_not(None))
    return connection.execute(delete(messages).where(messages.c.message_id.in_(old.limit(limit)))).rowcount


def _from_row(row: Row[Any]) -> Message:
    return Message(*[row._mapping[name] for name in Message.__struct_fields__])  # noqa: SLF001 - the documented way
