"""Contacts of buyers who want messages. Subscribing creates a row; opting out removes it."""

from collections.abc import Collection
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, delete, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.ledger.messages.devices import delete_devices
from holdfast.ledger.tables.messages import contacts

# Values per IN list; SQLite accepts only some thousand.
_NAMED_MAX = 500


class Contact(Struct, frozen=True):
    buyer_id: str
    email: str | None = None
    locale: str | None = None
    next_since: int | None = None
    created_at: int = 0
    updated_at: int = 0


def find_contact(connection: Connection, buyer_id: str) -> Contact | None:
    row = connection.execute(select(contacts).where(contacts.c.buyer_id == buyer_id)).one_or_none()
    return None if row is None else contact_from_row(row)


def find_contacts(connection: Connection, buyer_ids: Collection[str]) -> dict[str, Contact]:
    wanted, found = sorted(set(buyer_ids)), dict[str, Contact]()
    for at in range(0, len(wanted), _NAMED_MAX):
        query = select(contacts).where(contacts.c.buyer_id.in_(wanted[at : at + _NAMED_MAX]))
        found |= {row.buyer_id: contact_from_row(row) for row in connection.execute(query)}
    return found


def contact_from_row(row: Row[Any]) -> Contact:
    return Contact(row.buyer_id, row.email, row.locale, row.next_since, row.created_at, row.updated_at)


def put_contact(connection: Connection, contact: Contact, now: int) -> Contact:
    """Replaces an existing contact. A buyer who had already asked for the next sale keeps the time of that."""
    insert = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    before = find_contact(connection, contact.buyer_id)
    next_since = contact.next_since
    if next_since is not None and before is not None and before.next_since is not None:
        next_since = before.next_since
    values = {"email": contact.email, "locale": contact.locale, "next_since": next_since, "updated_at": now}
    made = insert(contacts).values(buyer_id=contact.buyer_id, created_at=now, **values)
    stored = made.on_conflict_do_update(index_elements=[contacts.c.buyer_id], set_=values).returning(*contacts.c)
    return contact_from_row(connection.execute(stored).one())


def delete_contact(connection: Connection, buyer_id: str) -> bool:
    """Ends all messages, including those to browsers."""
    delete_devices(connection, buyer_id=buyer_id)
    return connection.execute(delete(contacts).where(contacts.c.buyer_id == buyer_id)).rowcount > 0


def waiting_for_next(connection: Connection, announced_at: int, *, limit: int) -> list[str]:
    """The buyers who asked for the next sale before this one was announced."""
    asked = (contacts.c.next_since.is_not(None), contacts.c.next_since < announced_at)
    return list(connection.execute(select(contacts.c.buyer_id).where(*asked).limit(limit)).scalars())


def told_of_next(connection: Connection, buyer_ids: Collection[str]) -> None:
    """The request was for one sale, so it is fulfilled."""
    connection.execute(update(contacts).where(contacts.c.buyer_id.in_(buyer_ids)).values(next_since=None))
