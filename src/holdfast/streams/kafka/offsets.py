"""How far each partition may be committed: up to the first message that is not finished."""

from collections import deque
from threading import Lock

from msgspec import Struct


class _Tracked(Struct):
    offset: int
    is_done: bool = False


class Offsets:
    """Used by the event loop and by the polling thread, which loses partitions in a rebalance."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._partitions: dict[int, deque[_Tracked]] = {}
        self._reached: dict[int, int] = {}

    def begin(self, partition: int, offset: int) -> _Tracked:
        tracked = _Tracked(offset)
        with self._lock:
            self._partitions.setdefault(partition, deque()).append(tracked)
        return tracked

    def finish(self, partition: int, tracked: _Tracked) -> None:
        """Has no effect if the message's partition has been lost."""
        with self._lock:
            tracked.is_done = True
            line = self._partitions.get(partition, deque())
            while line and line[0].is_done:
                self._reached[partition] = line.popleft().offset + 1

    def take(self) -> dict[int, int]:
        """By partition, the next offset to read. Each offset is returned once."""
        with self._lock:
            reached, self._reached = self._reached, {}
        return reached

    def give_back(self, reached: dict[int, int]) -> None:
        """Called if a commit failed. Partitions that were lost meanwhile belong to another worker."""
        with self._lock:
            ours = {partition: offset for partition, offset in reached.items() if partition in self._partitions}
            self._reached = ours | self._reached

    def forget(self, partitions: list[int]) -> None:
        with self._lock:
            for partition in partitions:
                self._partitions.pop(partition, None)
                self._reached.pop(partition, None)
