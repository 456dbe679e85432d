"""Notifies people in line that it is their turn or that everything is sold out, and announces sales to subscribers.

A line that calls two thousand people per second must not wait for messages. So nothing is written when a place is
called. Instead, once per second the cursor of each line is compared with the last notified place. The places in between
are looked up in portions, limited to people who subscribed to messages.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from sqlalchemy import Connection

from holdfast.ledger.engine.database import Database
from holdfast.ledger.messages.contacts import told_of_next, waiting_for_next
from holdfast.ledger.messages.line_subjects import Subject, subject_of
from holdfast.ledger.messages.message_log import NewMessage, add_messages
from holdfast.ledger.messages.recipients import (
    ANNOUNCED,
    PORTION,
    SOLD_OUT,
    TURNS,
    begin_progress,
    called_people,
    lines_sold_out,
    lines_that_moved,
    lock_progress,
    room_of,
    store_progress,
    unannounced_sales,
    waiting_people,
)
from holdfast.messages.addressing import Addresses, Target
from holdfast.runtime.agent import Agent

PASS_INTERVAL_S = 1.0
# If a line was open for longer than this when messages were switched on, the people it called are inside or gone.
NEW_LINE_MS = 60_000
# After this time, a turn is most likely over.
TURN_NEWS_MS = 15 * 60_000
SOLD_OUT_NEWS_MS = 24 * 3_600_000
# The next sale is announced this long before it opens.
LEAD_MS = 3_600_000
NEXT_NEWS_MS = 24 * 3_600_000


class LineMessages:
    def __init__(self, database: Database, addresses: Addresses, wake: Callable[[], None] = lambda: None) -> None:
        self._database, self._addresses, self._wake = database, addresses, wake

    def agent(self) -> Agent[int]:
        return Agent("line_messages", self.pass_once, PASS_INTERVAL_S)

    async def pass_once(self) -> int:
        """Returns how many messages it created."""
        made = 0
        for line_id, position in await self._database.read(lines_that_moved):
            made += await self._repeat(partial(self._turns, line_id=line_id, is_new=position is None))
        for line_id, _ in await self._database.read(lines_sold_out):
            made += await self._repeat(partial(self._sold_out, line_id=line_id))
        for sale_id, announced_at in await self._database.read(self._unannounced):
            made += await self._repeat(partial(self._next, sale_id=sale_id, announced_at=announced_at))
        if made:
            self._wake()
        return made

    async def _repeat(self, step: Callable[[Connection], int | None]) -> int:
        made = 0
        while (done := await self._database.write(step)) is not None:
            made += done
        return made

    def _turns(self, connection: Connection, line_id: str, *, is_new: bool) -> int | None:
        """One portion; None once everyone who was called is notified."""
        now, room, name = self._database.now_ms(connection), room_of(connection, line_id), f"{TURNS}{line_id}"
        if room is None:
            return None
        if is_new:
            is_old = room.opened_at is not None and room.opened_at < now - NEW_LINE_MS
            begin_progress(connection, name, room.serving if is_old else 0, now)
        told = lock_progress(connection, name)
        if told is None or told >= room.serving:
            return None
        # The places of a draw are scattered over the line, so it is scanned once, not once per portion.
        upto = room.serving if room.draw is not None else min(told + PORTION, room.serving)
        called = [(one.buyer_id, one.ticket_id) for one in called_people(connection, room, told, upto)]
        store_progress(connection, name, upto, now)
        return self._add(connection, subject_of(connection, line_id), "your_turn", called, now, TURN_NEWS_MS)

    def _sold_out(self, connection: Connection, line_id: str) -> int | None:
        now, room, name = self._database.now_ms(connection), room_of(connection, line_id), f"{SOLD_OUT}{line_id}"
        told = lock_progress(connection, name)
        if room is None or told is None or told >= room.joined:
            return None
        upto = min(told + PORTION, room.joined)
        waiting = [(one.buyer_id, line_id) for one in waiting_people(connection, line_id, told, upto)]
        store_progress(connection, name, upto, now)
        return self._add(connection, subject_of(connection, line_id), "sold_out", waiting, now, SOLD_OUT_NEWS_MS)

    def _unannounced(self, connection: Connection) -> list[tuple[str, int]]:
        now = self._database.now_ms(connection)
        found = unannounced_sales(connection, now + LEAD_MS, now)
        return [(row.sale_id, max(row.starts_at, row.created_at)) for row in found]

    def _next(self, connection: Connection, sale_id: str, announced_at: int) -> int | None:
        """A buyer who asked while this sale was on has already asked for another one."""
        now, name = self._database.now_ms(connection), f"{ANNOUNCED}{sale_id}"
        if lock_progress(connection, name) != 0:
            return None
        asked = waiting_for_next(connection, announced_at, limit=500)
        if not asked:
            store_progress(connection, name, 1, now)
            return None
        told_of_next(connection, asked)
        people = [(each, sale_id) for each in asked]
        return self._add(connection, Subject(sale_id, {}), "next_sale", people, now, NEXT_NEWS_MS)

    def _add(
        self,
        connection: Connection,
        subject: Subject | None,
        kind: str,
        people: Sequence[tuple[str, str]],
        now: int,
        useful_ms: int,
    ) -> int:
        if subject is None:
            return 0
        targets = self._addresses.of(connection, {buyer_id for buyer_id, _ in people})
        return add_messages(connection, _messages(subject, kind, people, targets, now + useful_ms), now)


def _messages(
    subject: Subject, kind: str, people: Iterable[tuple[str, str]], targets: Mapping[str, Sequence[Target]], until: int
) -> list[NewMessage]:
    return [
        NewMessage(buyer_id, subject.sale_id, kind, target.channel, about, subject.facts, until, target.device)
        for buyer_id, about in people
        for target in targets.get(buyer_id, ())
    ]
