"""Watches reservations and yields their events as they happen.

However many reservations a process watches, one read of the ledger several times a second serves all of them. Each
watch gives the last event it has seen. A watch without news stays in the queue (`runtime/batching.py`) until the next
read.
"""

from collections.abc import AsyncGenerator, Sequence
from functools import cache
from math import inf
from time import monotonic
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Select, and_, literal_column, select, true

from holdfast.domain.stock.state import Event
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.rows import encode_rows, rows_parameter
from holdfast.ledger.events.history import public_events
from holdfast.ledger.tables.stock import events
from holdfast.runtime.batching import NOT_STARTED, ONE_QUEUE, KeyedBatcher, NotStarted
from holdfast.runtime.log import log_failure

READ_INTERVAL_S = 0.25
# Above the number of streams that a process accepts.
WATCHES_MAX = 65_536


class Seen(Struct, frozen=True):
    """An event and its sequence number."""

    seq: int
    event: Event


class _Watch(Struct, frozen=True):
    reservation_id: str
    after: int


@cache
def _newer(dialect_name: str) -> Select[Any]:
    given = rows_parameter(dialect_name, [events.c.reservation_id, events.c.seq])
    same = (events.c.reservation_id == given.c.reservation_id, events.c.seq > given.c.seq)
    if dialect_name == "sqlite":
        return select(events).select_from(given.join(events, and_(*same))).order_by(events.c.seq)
    # As in `rows_matching`: a lateral join makes PostgreSQL look each of them up by the index.
    each = select(events).where(*same).offset(literal_column("0")).lateral("each")
    return select(*each.c).select_from(given.join(each, true())).order_by(each.c.seq)


class Watcher:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._read_at = -inf
        self._watches: KeyedBatcher[_Watch, list[Seen]] = KeyedBatcher(
            self._news_of, batch_max=WATCHES_MAX, queue_max=WATCHES_MAX, pause_s=self._pause_s
        )
        self._newer = _newer(database.dialect_name)

    async def watch(self, reservation_id: str, after: int) -> AsyncGenerator[list[Seen], None]:
        """Yields the events of a reservation after a given one, then new ones, until the caller stops."""
        while True:
            news = await self._watches.submit(ONE_QUEUE, _Watch(reservation_id, after))
            after = news[-1].seq
            yield news

    def _pause_s(self, _key: str) -> float:
        return self._read_at + READ_INTERVAL_S - monotonic()

    async def _news_of(self, _key: str, watches: Sequence[_Watch], /) -> list[list[Seen] | NotStarted]:
        """Watches without news keep waiting; after a failed read, all of them do."""
        self._read_at = monotonic()
        try:
            found = await self.events_after([(watch.reservation_id, watch.after) for watch in watches])
        except Exception as exc:
            log_failure("watcher_read_failed", exc)
            return [NOT_STARTED] * len(watches)
        by_reservation: dict[str | None, list[Seen]] = {}
        for seen in found:
            by_reservation.setdefault(seen.event.reservation_id, []).append(seen)
        return [
            [seen for seen in by_reservation.get(watch.reservation_id, ()) if seen.seq > watch.after] or NOT_STARTED
            for watch in watches
        ]

    async def events_after(self, wanted: list[tuple[str, int]]) -> list[Seen]:
        """The events of these reservations, each after the given sequence number."""

        def read(connection: Connection) -> list[Seen]:
            rows = connection.execute(self._newer, {"rows": encode_rows(set(wanted))}).all()
            told = public_events(connection, rows)
            return [Seen(row.seq, event) for row, event in zip(rows, told, strict=True)]

        return await self._database.read(read)
