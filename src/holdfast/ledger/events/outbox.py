"""Turns events into deliveries. The events are the outbox: each was written in the transaction that caused it.

Lock order: webhooks first, then their deliveries.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, func, select, update

from holdfast.domain.stock.event_type import wanted_types
from holdfast.ledger.engine.rows import insert_rows
from holdfast.ledger.events.event_facts import FactQueries, Facts, FindTraces
from holdfast.ledger.events.webhooks import Webhook, find_webhook, latest_seq
from holdfast.ledger.mark.mark import number_of, read_incarnations
from holdfast.ledger.tables.stock import events
from holdfast.ledger.tables.webhooks import deliveries, webhooks

# Deliveries created, and events read for them, per transaction.
EVENTS_MAX = 1_000
WINDOW = 50_000

_NEW = [
    deliveries.c[n] for n in ("delivery_id", "webhook_id", "seq", "type", "subject", "body", "due_at", "created_at")
]


EncodeEvent = Callable[[Row[Any], Facts, str], tuple[str, str]]
"""The subject by which an event's deliveries are ordered, and their body, given the event's number."""


_POSITIONS = select(webhooks.c.relayed_seq).where(webhooks.c.disabled_at.is_(None)).distinct()


class OutboxQueries:
    """The statements of one engine, built once."""

    def __init__(self, dialect_name: str, find_traces: FindTraces | None = None) -> None:
        self._facts = FactQueries(dialect_name, find_traces)
        self._insert = insert_rows(dialect_name, deliveries, _NEW)

    @staticmethod
    def positions(connection: Connection) -> list[int]:
        """The positions of the webhooks. Most webhooks share one."""
        return sorted(connection.execute(_POSITIONS).scalars())

    def relay(self, connection: Connection, position: int, upto: int, now: int, encode_event: EncodeEvent) -> int:
        """Create the deliveries of the next events for the webhooks at this position, and advance them."""
        hooks = self._lock(connection, position)
        if not hooks:
            return upto
        # Never past the last event: the next ones would be skipped.
        last = latest_seq(connection)
        if last <= position:
            return upto
        upto = min(upto, position + WINDOW, last)
        wanted = {hook.webhook_id: wanted_types(hook.events) for hook in hooks}
        types = frozenset[str]().union(*wanted.values())
        query = select(events).where(events.c.seq > position, events.c.seq <= upto, events.c.type.in_(sorted(types)))
        found = connection.execute(query.order_by(events.c.seq).limit(EVENTS_MAX)).all()
        if len(found) == EVENTS_MAX:
            upto = found[-1].seq
        self._write(connection, found, wanted, now, encode_event)
        mine = webhooks.c.webhook_id.in_(list(wanted))
        connection.execute(update(webhooks).where(mine).values(relayed_seq=upto))
        return upto

    @staticmethod
    def _lock(connection: Connection, position: int) -> list[Webhook]:
        """Skips those that another relay has locked."""
        at_it = (webhooks.c.relayed_seq == position) & webhooks.c.disabled_at.is_(None)
        query = select(webhooks.c.webhook_id).where(at_it).with_for_update(skip_locked=True)
        found = [find_webhook(connection, webhook_id) for webhook_id in connection.execute(query).scalars().all()]
        return [hook for hook in found if hook is not None]

    def _write(
        self,
        connection: Connection,
        found: Sequence[Row[Any]],
        wanted: dict[str, frozenset[str]],
        now: int,
        encode_event: EncodeEvent,
    ) -> None:
        if not found:
            return
        facts, history = self._facts.about(connection, found), read_incarnations(connection)
        rows = []
        for event in found:
            number = number_of(history, event.seq)
            line, body = encode_event(event, facts, number)
            rows += [
                (delivery_id(webhook_id, number), webhook_id, event.seq, event.type, line, body, now, now)
                for webhook_id, types in wanted.items()
                if event.type in types
            ]
        self._insert(connection, rows)

    def add(self, connection: Connection, webhook_id: str, new: "NewDelivery", now: int) -> None:
        """A delivery without an event."""
        row = (new.delivery_id, webhook_id, new.seq, new.type, new.line, new.body, now, now)
        self._insert(connection, [row])


outbox_queries = cache(OutboxQueries)


def unrelayed(connection: Connection) -> tuple[int, int | None]:
    """At most how many events are ahead of the webhook that is furthest behind (numbers may have gaps), and since
    when."""
    reached = select(func.min(webhooks.c.relayed_seq)).where(webhooks.c.disabled_at.is_(None))
    position = connection.execute(reached).scalar_one()
    if position is None:
        return 0, None
    following = select(events.c.at).where(events.c.seq > position).order_by(events.c.seq).limit(1)
    oldest = connection.execute(following).scalar_one_or_none()
    return (0, None) if oldest is None else (latest_seq(connection) - position, oldest)


class NewDelivery(Struct, frozen=True):
    delivery_id: str
    seq: int
    type: str
    line: str
    body: str


def delivery_id(webhook_id: str, number: str) -> str:
    """Derived from the event, so that an event reaches a webhook under one ID only."""
    return f"dlv_{webhook_id.removeprefix('wh_')}_{number}"
