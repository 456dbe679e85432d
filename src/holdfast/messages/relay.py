"""Creates messages from events, one for each buyer who asked for them.

The model is that of webhooks: messages are written in the transaction that advances the position, so each event becomes
at most one message, even after a crash. The relay begins with the events after its first start. One process runs it at
a time.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, select

from holdfast.domain.sale.sale import order_id_of, order_number_of
from holdfast.ledger.chain.horizon import Horizon, Seen, horizon_queries
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.declined import declined_payment
from holdfast.ledger.events.event_facts import FactQueries, Facts
from holdfast.ledger.events.streams import find_stream
from holdfast.ledger.events.webhooks import latest_seq
from holdfast.ledger.messages.line_subjects import line_sold_out
from holdfast.ledger.messages.message_log import NewMessage, add_messages
from holdfast.ledger.messages.recipients import (
    SOLD_OUT,
    begin_progress,
    has_progress,
    lock_progress,
    store_progress,
)
from holdfast.ledger.sales.sale_lists import find_sales
from holdfast.ledger.tables.stock import events
from holdfast.messages.addressing import Addresses, Target
from holdfast.runtime.agent import Agent

PASS_INTERVAL_S = 0.5
NAME = "messages"
EVENTS_MAX, WINDOW = 1_000, 50_000
# News of an order stays relevant for days; an older mail would only be confusing.
ORDER_NEWS_MS = 3 * 24 * 3_600_000

_KINDS = {
    "order.confirmed": "order_confirmed",
    "order.cancelled": "order_cancelled",
    "order.refunded": "order_refunded",
    "payment.declined": "payment_failed",
}
_TYPES = sorted((*_KINDS, "pool.sold_out"))


class _News(Struct, frozen=True):
    """The message that one event creates for one buyer."""

    kind: str
    buyer_id: str
    sale_id: str
    seq: int
    facts: dict[str, Any]
    expires_at: int

    def to(self, target: Target) -> NewMessage:
        about = str(self.seq)
        where = (target.channel, about, self.facts, self.expires_at, target.device)
        return NewMessage(self.buyer_id, self.sale_id, self.kind, *where)


class MessageRelay:
    def __init__(self, database: Database, addresses: Addresses, wake: Callable[[], None] = lambda: None) -> None:
        self._database, self._addresses, self._wake = database, addresses, wake
        self._facts = FactQueries(database.dialect_name)
        self._horizon, self._seen = Horizon(), horizon_queries(database.dialect_name)

    def agent(self) -> Agent[int]:
        return Agent("message_relay", self.pass_once, PASS_INTERVAL_S)

    async def pass_once(self) -> int:
        """Returns how many messages it created."""
        seen, has_begun = await self._database.read(self._look)
        if not has_begun:
            await self._database.write(self._begin)
        upto, made = self._horizon.reached(seen), 0
        if upto <= await self._database.read(_position):
            return 0
        while (done := await self._database.write(lambda c: self._relay(c, upto))) is not None:
            made += done
        if made:
            self._wake()
        return made

    def _look(self, connection: Connection) -> tuple[Seen, bool]:
        return self._seen.look(connection, self._horizon.known), has_progress(connection, NAME)

    def _begin(self, connection: Connection) -> None:
        begin_progress(connection, NAME, latest_seq(connection), self._database.now_ms(connection))

    def _relay(self, connection: Connection, upto: int) -> int | None:
        """The messages of the next events; None if there are no more, or if another process holds the lock."""
        position = lock_progress(connection, NAME)
        upto = min(upto, latest_seq(connection))
        if position is None or position >= upto:
            return None
        now, upto = self._database.now_ms(connection), min(upto, position + WINDOW)
        query = select(events).where(events.c.seq > position, events.c.seq <= upto, events.c.type.in_(_TYPES))
        found = connection.execute(query.order_by(events.c.seq).limit(EVENTS_MAX)).all()
        if len(found) == EVENTS_MAX:
            upto = found[-1].seq
        made = add_messages(connection, self._messages(connection, found, now), now) if found else 0
        store_progress(connection, NAME, upto, now)
        return made

    def _messages(self, connection: Connection, found: Sequence[Row[Any]], now: int) -> list[NewMessage]:
        facts = self._facts.about(connection, found)
        for event in found:
            if event.type == "pool.sold_out":
                note_sold_out(connection, facts.sale_of(event.sku_id), now)
        news = [one for event in found for one in _news_of(event, facts)]
        wanted = {sale.sale_id for sale in find_sales(connection, {one.sale_id for one in news}) if sale.notify}
        news = [one for one in news if one.sale_id in wanted]
        targets = self._addresses.of(connection, {one.buyer_id for one in news})
        return [one.to(target) for one in news for target in targets.get(one.buyer_id, ())]


def _position(connection: Connection) -> int:
    """Read without a lock, only to avoid a transaction when there is nothing new."""
    return find_stream(connection, NAME).position


def note_sold_out(connection: Connection, sale_id: str | None, now: int) -> None:
    """The people in line are notified in portions (`lines.py`)."""
    line_id = None if sale_id is None else line_sold_out(connection, sale_id)
    if line_id is not None:
        begin_progress(connection, f"{SOLD_OUT}{line_id}", 0, now)


def _news_of(event: Row[Any], facts: Facts) -> Iterator[_News]:
    kind = _KINDS.get(event.type)
    if kind == "payment_failed":
        payment = declined_payment(event.facts)
        if payment is not None and event.expires_at is not None:
            about = {"amount": payment.amount, "currency": payment.currency, "deadline": event.expires_at}
            yield _News(kind, payment.buyer_id, payment.sale_id, event.seq, about, event.expires_at)
    elif kind is not None and event.reservation_id is not None:
        order = facts.orders.get(order_id_of(event.reservation_id))
        refund = facts.refunds.get(event.subject)
        if order is not None:
            paid = order if refund is None else refund
            about = {"amount": paid.amount, "currency": paid.currency, "quantity": order.quantity}
            about["number"] = order_number_of(order.reservation_id)
            yield _News(kind, order.buyer_id, order.sale_id, event.seq, about, event.at + ORDER_NEWS_MS)
