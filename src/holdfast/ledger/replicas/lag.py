"""How far a replica is behind, without comparing clocks.

The primary's position is noted with the time of our own clock. A replica that has not replayed a position lags since
the time of that note. On an idle primary the position does not move, and a replica that has reached it does not lag.
"""

from collections import deque
from collections.abc import Iterator

from msgspec import Struct

# Two minutes at ten notes a second; a replica further behind lags at least that long.
NOTES_MAX = 1_200


class Note(Struct, frozen=True):
    at: float
    position: int
    # The newest heartbeat in the ledger.
    heartbeat: int


class PrimaryNotes:
    def __init__(self) -> None:
        self._notes: deque[Note] = deque(maxlen=NOTES_MAX)

    def add(self, note: Note) -> None:
        if self._notes and note.position < self._notes[-1].position:
            # Another server is the primary now, which invalidates the existing notes.
            self._notes.clear()
        self._notes.append(note)

    def lag_s(self, replayed: int, now: float) -> float:
        """How long ago the primary first had something that the replica lacks."""
        since = now
        for note in self._latest_first():
            if note.position <= replayed:
                break
            since = note.at
        return now - since

    def is_diverged(self, replayed: int, heartbeat: int) -> bool:
        """Whether a replica claims a position but lacks what was written before it. It then follows another primary,
        for example because a failover left it behind. The last note is too recent to tell."""
        earlier = self._notes[-2] if len(self._notes) > 1 else None
        return earlier is not None and replayed >= earlier.position and heartbeat < earlier.heartbeat

    def _latest_first(self) -> Iterator[Note]:
        return reversed(self._notes)
