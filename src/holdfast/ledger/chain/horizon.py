"""How far events can be read without missing one.

The model. PostgreSQL assigns sequence numbers before transactions commit: event 8 may be visible while the transaction
with number 7 is still running. A reader that continues after 8 would never see 7. So the reader notes, in one snapshot,
the last event it sees and a transaction ID of its own (`xmax`), which is above all that were assigned before. Every
event up to that one belongs to a transaction below that ID: a writer locks the pool or changes the sale before it
writes an event, so it already has a transaction ID. Once a later snapshot says that all of those transactions have
ended (`xmin`), every event up to the noted one is visible. The snapshot's own upper bound would not do: it only exceeds
the IDs of transactions that have ended, and a running one may have a higher ID.

What happens when it fails. A hanging transaction, in any database of the server, holds the horizon back until it ends:
events are delayed, never lost. SQLite has one writer, so its horizon is its last event.
"""

from collections import deque
from functools import cache

from msgspec import Struct
from sqlalchemy import BigInteger, ColumnElement, Connection, Text, bindparam, case, cast, func, literal, select

from holdfast.ledger.tables.stock import events

# More notes would not help: the reader waits for the oldest one.
NOTES_MAX = 100


class Seen(Struct, frozen=True):
    """The last visible event, and which transactions the read could not see (PostgreSQL only).

    Every transaction below `xmin` had ended, and none at or above `xmax` had begun to write, if there is a new event.
    """

    seq: int
    xmin: int = 0
    xmax: int = 0


class HorizonQueries:
    """The statement of one engine, built once."""

    def __init__(self, dialect_name: str) -> None:
        last = select(func.coalesce(func.max(events.c.seq), 0)).scalar_subquery()
        edges: list[ColumnElement[int]] = [literal(0), literal(0)]
        if dialect_name == "postgresql":
            snapshot = func.pg_current_snapshot()
            is_new = last > bindparam("known", type_=BigInteger)
            # If there is no new event, nothing is noted, so an idle server uses no transaction IDs.
            upper = case((is_new, func.pg_current_xact_id()), else_=func.pg_snapshot_xmax(snapshot))
            # A 64-bit transaction id can be converted to a number only through its text.
            edges = [cast(cast(edge, Text), BigInteger) for edge in (func.pg_snapshot_xmin(snapshot), upper)]
        self._seen = select(last, *edges)

    def look(self, connection: Connection, known: int) -> Seen:
        """In one statement, hence in one snapshot. `known` is the last event that the horizon has noted."""
        return Seen(*map(int, connection.execute(self._seen, {"known": known}).one()))


horizon_queries = cache(HorizonQueries)


class Horizon:
    def __init__(self) -> None:
        self._notes: deque[Seen] = deque()
        self._seq = self._xmax = 0

    @property
    def known(self) -> int:
        """The last noted event."""
        return self._notes[-1].seq if self._notes else self._seq

    def reached(self, seen: Seen) -> int:
        """The event up to which every event is visible, given this snapshot."""
        if seen.seq < self._seq or seen.xmax < self._xmax:
            # The ledger went back. Notes from before would make a reader skip new events.
            self._notes.clear()
            self._seq, self._xmax = 0, seen.xmax
            return 0
        self._xmax = seen.xmax
        if seen.seq > self.known and len(self._notes) < NOTES_MAX:
            self._notes.append(seen)
        while self._notes and self._notes[0].xmax <= seen.xmin:
            self._seq = self._notes.popleft().seq
        return self._seq
