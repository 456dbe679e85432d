"""Watching reservations: what happens to them, as it happens.

However many are watched in a process, the ledger is asked once, several times a second, for all of them: each with the
last event that its watcher has seen.
"""

import asyncio
from collections.abc import AsyncGenerator

import structlog
from msgspec import Struct
from sqlalchemy import Connection, literal_column, select, true

from holdfast.domain.state import Event
from holdfast.errors import EngineError
from holdfast.ledger.database import Database
from holdfast.ledger.payment_notes import told_events
from holdfast.ledger.rows import encode_rows, rows_parameter
from holdfast.ledger.tables import events

log = structlog.get_logger()

LOOK_INTERVAL_S = 0.25


class Seen(Struct, frozen=True):
    """An event and its place in the order of all."""

    seq: int
    event: Event


class _Watch(Struct, eq=False):
    reservation_id: str
    after: int
    news: "asyncio.Queue[list[Seen]]"


class Watcher:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._watches: set[_Watch] = set()
        self._looking: asyncio.Task[None] | None = None
        given = rows_parameter(database.dialect_name, [events.c.reservation_id, events.c.seq])
        newer = (
            select(events)
            .where(events.c.reservation_id == given.c.reservation_id, events.c.seq > given.c.seq)
            .offset(literal_column("0"))
        )
        # As in `rows_matching`: PostgreSQL is left no choice but to look each of them up.
        if database.dialect_name == "sqlite":
            same = (events.c.reservation_id == given.c.reservation_id) & (events.c.seq > given.c.seq)
            self._newer = select(events).select_from(given.join(events, same)).order_by(events.c.seq)
        else:
            each = newer.lateral("each")
            self._newer = select(*each.c).select_from(given.join(each, true())).order_by(each.c.seq)

    async def watch(self, reservation_id: str, after: int) -> AsyncGenerator[list[Seen], None]:
        """What happened to it after an event, and then what happens, in portions, until nobody listens any more."""
        watch = _Watch(reservation_id, after, asyncio.Queue())
        self._watches.add(watch)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        try:
            while True:
                yield await watch.news.get()
        finally:
            self._watches.discard(watch)

    async def _look(self) -> None:
        while self._watches:
            try:
                self._tell(await self.events_after([(w.reservation_id, w.after) for w in self._watches]))
            except EngineError as exc:
                log.warning("watcher_look_failed", error=str(exc))
            except Exception:
                log.exception("watcher_look_failed")
            await asyncio.sleep(LOOK_INTERVAL_S)
        self._looking = None

    async def events_after(self, wanted: list[tuple[str, int]]) -> list[Seen]:
        """The events of these reservations, each after the one it is given with."""

        def read(connection: Connection) -> list[Seen]:
            rows = connection.execute(self._newer, {"rows": encode_rows(set(wanted))}).all()
            told = told_events(connection, rows)
            return [Seen(row.seq, event) for row, event in zip(rows, told, strict=True)]

        return await self._database.read(read)

    def _tell(self, found: list[Seen]) -> None:
        by_reservation: dict[str | None, list[Seen]] = {}
        for seen in found:
            by_reservation.setdefault(seen.event.reservation_id, []).append(seen)
        for watch in self._watches:
            news = [s for s in by_reservation.get(watch.reservation_id, ()) if s.seq > watch.after]
            if news:
                watch.after = news[-1].seq
                watch.news.put_nowait(news)
