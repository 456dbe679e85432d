"""How far the events may be read without missing one.

The model. PostgreSQL gives out numbers before transactions commit: event 8 may be there to read while the transaction
that took number 7 has not ended. A reader that goes on after 8 never sees 7. So it notes, in one snapshot, the last
event it sees and the first transaction that had not begun (`xmax`). Numbers up to that event were taken by transactions
below that one: whoever writes an event has locked its pool or changed its sale before, and so was already numbered
among the transactions when the event was. Once a later snapshot says that all of those have ended (`xmin`), whatever
there will ever be up to the noted event is there.

What happens when it fails. A transaction that hangs, in any database of the server, holds the horizon back until it
ends: events are late, never lost. SQLite has one writer, so its horizon is its last event.
"""

from collections import deque

from holdfast.ledger.outbox import Seen

# More notes than this bring nothing: the oldest is the one that is waited for.
NOTES_MAX = 100


class Horizon:
    def __init__(self) -> None:
        self._notes: deque[Seen] = deque()
        self._seq = 0

    def reached(self, seen: Seen) -> int:
        """The event up to which all is there, now that this was seen."""
        known = self._notes[-1].seq if self._notes else self._seq
        if seen.seq > known and len(self._notes) < NOTES_MAX:
            self._notes.append(seen)
        while self._notes and self._notes[0].xmax <= seen.xmin:
            self._seq = self._notes.popleft().seq
        return self._seq
