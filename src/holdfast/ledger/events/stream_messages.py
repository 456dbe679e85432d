"""The messages of a stream: events by SKU, settlement intents by buyer, updates of pools."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, select

from holdfast.domain.stock.event_type import EventType
from holdfast.ledger.events.cloud_event import encode, encode_event
from holdfast.ledger.events.dead_letters import DEAD_LETTERS, DeadLetters, encode_letters, untold
from holdfast.ledger.events.event_facts import FactQueries, Facts, FindTraces
from holdfast.ledger.events.pool_updates import encode_update, id_prefix, updates_after
from holdfast.ledger.events.streams import Stream
from holdfast.ledger.mark.mark import number_of, read_incarnations
from holdfast.ledger.tables.stock import events

# By SKU: a consumer reads the events of a product in the order in which they happened.
EVENTS = "holdfast.events"
# By buyer, not by SKU: in a rush nearly all intents are for one SKU, so one partition and its consumer would get all of
# them while the others idle. Buyers spread evenly.
INTENTS = "holdfast.intents"
INTENT = "settlement.requested"
# Messages per transaction, and events scanned for them.
MESSAGES_MAX = 2_000
WINDOW = 50_000

_TYPES = sorted(EventType)


class Message(Struct, frozen=True):
    topic: str
    key: str
    body: str


class Batch(Struct, frozen=True):
    """Messages in order, and the position of the stream after them."""

    messages: Sequence[Message]
    position: int
    update_number: int
    has_more: bool = False
    letters: DeadLetters = DeadLetters()


class StreamMessages:
    """The statements of one engine, built once."""

    def __init__(self, dialect_name: str, find_traces: FindTraces | None = None) -> None:
        self._facts = FactQueries(dialect_name, find_traces)

    def read(self, connection: Connection, stream: Stream, upto: int, letters_at: int | None = None) -> Batch:
        """`letters_at`: the time, if parked items are to be checked."""
        found, position = _next_events(connection, stream.position, upto)
        messages: list[Message] = []
        if found:
            facts, history = self._facts.about(connection, found), read_incarnations(connection)
            for event in found:
                messages += _messages_of(event, facts, number_of(history, event.seq))
        updates = updates_after(connection, stream.update_number, MESSAGES_MAX)
        prefix = id_prefix(connection) if updates else ""
        messages += [Message(EVENTS, each.sku_id, encode_update(each, prefix)) for each in updates]
        reached = updates[-1].number if updates else stream.update_number
        letters = DeadLetters()
        if letters_at is not None:
            letters, prefix = untold(connection), id_prefix(connection)
            messages += [Message(DEAD_LETTERS, *each) for each in encode_letters(letters, prefix, letters_at)]
        return Batch(messages, position, reached, len(found) == MESSAGES_MAX, letters)


def _next_events(connection: Connection, position: int, upto: int) -> tuple[Sequence[Row[Any]], int]:
    """The next events, and the position up to which there are no others."""
    upto = min(upto, position + WINDOW)
    if upto <= position:
        return [], position
    query = select(events).where(events.c.seq > position, events.c.seq <= upto, events.c.type.in_(_TYPES))
    found = connection.execute(query.order_by(events.c.seq).limit(MESSAGES_MAX)).all()
    return found, found[-1].seq if len(found) == MESSAGES_MAX else upto


def _messages_of(event: Row[Any], facts: Facts, number: str) -> Iterator[Message]:
    _, body = encode_event(event, facts, number)
    yield Message(EVENTS, facts.sku_of(event), body)
    if event.type == EventType.RESERVATION_SETTLING:
        yield from _intent(event, facts, number)


def _intent(event: Row[Any], facts: Facts, number: str) -> Iterator[Message]:
    """A wake-up for settlement. The work itself is in the ledger, so a lost or repeated one does no harm."""
    reservation, sale_id = facts.reservations.get(event.reservation_id), facts.sale_of(event.sku_id)
    if reservation is None or sale_id is None:
        return
    data = {
        "purchase_id": event.reservation_id,
        "sku_id": facts.sku_of(event),
        "sale_id": sale_id,
        "buyer_id": reservation.owner_id,
        "quantity": event.quantity,
    }
    traceparent = facts.traces.get(event.reservation_id)
    body = encode(f"int_{number}", INTENT, event.reservation_id, event.at, data, traceparent=traceparent)
    yield Message(INTENTS, reservation.owner_id, body)
