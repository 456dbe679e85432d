"""From events to deliveries. The events are the outbox: each was written in the transaction that caused it.

Lock order: webhooks first, then their deliveries.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import BigInteger, ColumnElement, Connection, Row, Text, cast, func, literal, select, update

from holdfast.domain.event_type import wanted_types
from holdfast.ledger.event_facts import FactQueries, Facts
from holdfast.ledger.rows import insert_rows
from holdfast.ledger.tables import events
from holdfast.ledger.webhook_tables import deliveries, webhooks
from holdfast.ledger.webhooks import Webhook, find_webhook

# As many as become deliveries in one transaction, and as many as are looked through for them.
EVENTS_MAX = 1_000
WINDOW = 50_000

_NEW = [
    deliveries.c[n] for n in ("delivery_id", "webhook_id", "seq", "type", "subject", "body", "due_at", "created_at")
]


class Seen(Struct, frozen=True):
    """The last event that is visible, and which transactions the look could not see (PostgreSQL only).

    Every transaction below `xmin` had ended, and none at or above `xmax` had begun to write.
    """

    seq: int
    xmin: int = 0
    xmax: int = 0


Tell = Callable[[Row[Any], Facts], tuple[str, str]]
"""The line in which an event's deliveries stand, and their body."""


class OutboxQueries:
    """The statements of one engine, built once."""

    def __init__(self, dialect_name: str) -> None:
        self._facts = FactQueries(dialect_name)
        self._insert = insert_rows(dialect_name, deliveries, _NEW)
        last = select(func.coalesce(func.max(events.c.seq), 0)).scalar_subquery()
        edges: list[ColumnElement[int]] = [literal(0), literal(0)]
        if dialect_name == "postgresql":
            snapshot = func.pg_current_snapshot()
            # There is no way from a 64-bit transaction id to a number but through its text.
            edges = [
                cast(cast(edge(snapshot), Text), BigInteger) for edge in (func.pg_snapshot_xmin, func.pg_snapshot_xmax)
            ]
        self._seen = select(last, *edges)

    def look(self, connection: Connection) -> Seen:
        """In one statement, so in one snapshot."""
        return Seen(*map(int, connection.execute(self._seen).one()))

    @staticmethod
    def positions(connection: Connection) -> list[int]:
        """How far those who want to hear have got, which for most is equally far."""
        reached = select(webhooks.c.relayed_seq).where(webhooks.c.disabled_at.is_(None)).distinct()
        return sorted(connection.execute(reached).scalars())

    def relay(self, connection: Connection, position: int, upto: int, now: int, tell: Tell) -> int:
        """Write the deliveries of the next events for all who are at this position, and how far they are then."""
        hooks = self._lock(connection, position)
        if not hooks:
            return upto
        upto = min(upto, position + WINDOW)
        wanted = {hook.webhook_id: wanted_types(hook.events) for hook in hooks}
        types = frozenset[str]().union(*wanted.values())
        query = select(events).where(events.c.seq > position, events.c.seq <= upto, events.c.type.in_(sorted(types)))
        found = connection.execute(query.order_by(events.c.seq).limit(EVENTS_MAX)).all()
        if len(found) == EVENTS_MAX:
            upto = found[-1].seq
        self._write(connection, found, wanted, now, tell)
        mine = webhooks.c.webhook_id.in_(list(wanted))
        connection.execute(update(webhooks).where(mine).values(relayed_seq=upto))
        return upto

    @staticmethod
    def _lock(connection: Connection, position: int) -> list[Webhook]:
        """Skips those that another relay is at."""
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
        tell: Tell,
    ) -> None:
        if not found:
            return
        facts = self._facts.about(connection, found)
        rows = []
        for event in found:
            line, body = tell(event, facts)
            rows += [
                (delivery_id(webhook_id, event.seq), webhook_id, event.seq, event.type, line, body, now, now)
                for webhook_id, types in wanted.items()
                if event.type in types
            ]
        self._insert(connection, rows)

    def add(self, connection: Connection, webhook_id: str, new: "NewDelivery", now: int) -> None:
        """One that no event stands behind."""
        row = (new.delivery_id, webhook_id, new.seq, new.type, new.line, new.body, now, now)
        self._insert(connection, [row])


class NewDelivery(Struct, frozen=True):
    delivery_id: str
    seq: int
    type: str
    line: str
    body: str


def delivery_id(webhook_id: str, seq: int) -> str:
    """Made of the event, so that an event can reach a webhook under one id only."""
    return f"dlv_{webhook_id.removeprefix('wh_')}_{seq}"
