"""Publishes changes in parked items to the dead-letter topic: newly parked ones, and those no longer parked.

`dead_letters` lists the published items. It is compared with the parked items, a few hundred at a time. Messages that
no consumer can read take the opposite direction: they are parked in the ledger like any other item.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Table, delete, exists, literal_column, select, tuple_
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.ledger.events.cloud_event import encode
from holdfast.ledger.tables.money import refunds, settlements
from holdfast.ledger.tables.stock import parked_entries
from holdfast.ledger.tables.streams import dead_letters, parked_messages
from holdfast.ledger.tables.webhooks import deliveries
from holdfast.runtime.times import rfc3339

DEAD_LETTERS = "holdfast.dead-letters"
PARKED, RELEASED = "item.parked", "item.released"
ITEMS_MAX = 500
# The fields of a message that an operator needs.
BODY_MAX = 4_096

# The tables with parked items, by kind, and their ID column.
PARKED_TABLES: Mapping[str, tuple[Table, str]] = {
    "settlement": (settlements, "reservation_id"),
    "refund": (refunds, "refund_id"),
    "delivery": (deliveries, "delivery_id"),
    "journal": (parked_entries, "entry_id"),
    "message": (parked_messages, "message_id"),
}


class ParkedLetter(Struct, frozen=True):
    kind: str
    item_id: str
    reason: str | None
    attempts: int
    created_at: int


class DeadLetters(Struct, frozen=True):
    """What to publish to the topic."""

    parked: Sequence[ParkedLetter] = ()
    released: Sequence[tuple[str, str]] = ()


def is_parked(table: Table) -> ColumnElement[bool]:
    """Uses literals, so that the engines use the partial index."""
    return table.c.state == literal_column("'parked'")


def untold(connection: Connection) -> DeadLetters:
    parked: list[ParkedLetter] = []
    released: list[tuple[str, str]] = []
    for kind, (table, column) in PARKED_TABLES.items():
        is_same = (dead_letters.c.kind == kind, dead_letters.c.item_id == table.c[column])
        wanted = [table.c[name] for name in (column, "reason", "attempts", "created_at")]
        new = select(*wanted).where(is_parked(table), ~exists().where(*is_same)).limit(ITEMS_MAX)
        parked += [ParkedLetter(kind, *row) for row in connection.execute(new)]
        over = select(dead_letters.c.item_id).where(
            dead_letters.c.kind == kind, ~exists().where(table.c[column] == dead_letters.c.item_id, is_parked(table))
        )
        released += [(kind, item_id) for item_id in connection.execute(over.limit(ITEMS_MAX)).scalars()]
    return DeadLetters(parked, released)


def note_told(connection: Connection, told: DeadLetters, now: int) -> None:
    if told.parked:
        insert_into = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
        rows = [{"kind": one.kind, "item_id": one.item_id, "told_at": now} for one in told.parked]
        connection.execute(insert_into(dead_letters).on_conflict_do_nothing(), rows)
    if told.released:
        key = tuple_(dead_letters.c.kind, dead_letters.c.item_id)
        connection.execute(delete(dead_letters).where(key.in_(list(told.released))))


def encode_letters(told: DeadLetters, prefix: str, now: int) -> list[tuple[str, str]]:
    """The key and the body of each."""
    found = []
    for one in told.parked:
        name = f"{one.kind}:{one.item_id}"
        about = {"reason": one.reason, "attempts": one.attempts, "created_at": rfc3339(one.created_at)}
        found.append((name, _encode(PARKED, name, prefix, now, {"parked_id": name, "kind": one.kind} | about)))
    for kind, item_id in told.released:
        name = f"{kind}:{item_id}"
        found.append((name, _encode(RELEASED, name, prefix, now, {"parked_id": name, "kind": kind})))
    return found


def _encode(event_type: str, name: str, prefix: str, now: int, data: dict[str, Any]) -> str:
    return encode(f"{prefix}_{event_type.partition('.')[2]}_{now}_{name}", event_type, name, now, data)


def park_message(connection: Connection, message_id: str, reason: str, body: bytes, now: int) -> None:
    """A message that is delivered again is parked once."""
    insert_into = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    # PostgreSQL stores no NUL.
    text = body[:BODY_MAX].decode(errors="replace").replace("\0", "�")
    row = {"message_id": message_id, "reason": reason, "body": text, "created_at": now}
    connection.execute(insert_into(parked_messages).values(row).on_conflict_do_nothing())
