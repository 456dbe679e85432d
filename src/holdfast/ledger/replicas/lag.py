"""How far a replica is behind, without comparing clocks.

The primary's position is noted with the time by our own clock. A replica that has not replayed a position lags since
that was noted. On an idle primary the position stands still, and a replica that has it does not lag.
"""

from collections import deque
from collections.abc import Iterator

from msgspec import Struct

# At ten a second, two minutes; a replica further behind lags at least that long.
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
            # Another server is the primary now, so notes about the last one are invalid.
            self._notes.clear()
        self._notes.append(note)

    def lag_s(self, replayed: int, now: float) -> float:
        """Since when the primary has had something that the replica has not."""
        since = now
        for note in self._latest_first():
            if note.position <= replayed:
                break
            since = note.at
        return now - since

    def is_diverged(self, replayed: int, heartbeat: int) -> bool:
        """Whether a replica claims a position without having what was written before it: it follows another primary,
        as one that was left behind by a failover. The last note is too young to tell."""
        earlier = self._notes[-2] if len(self._notes) > 1 else None
        return earlier is not None and replayed >= earlier.position and heartbeat < earlier.heartbeat

    def _latest_first(self) -> Iterator[Note]:
        return reversed(self._notes)
