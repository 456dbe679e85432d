"""The types of values in Redis: string (bytes), hash (a dictionary), sorted set and stream."""

from bisect import bisect_left, bisect_right, insort
from copy import copy
from typing import Any, TypeAlias

from holdfast.gate.redis.link.port import ErrorReply

EntryId: TypeAlias = tuple[int, int]
LAST_SEQUENCE = 2**64 - 1


class Refused(Exception):
    """A command that gets an error reply."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code} {message}")
        self.reply = ErrorReply(code, message)


class Status(bytes):
    """A status reply such as OK. A function sees it as a table."""


class SortedSet:
    """Members ordered by score, then by bytes."""

    def __init__(self) -> None:
        self.scores: dict[bytes, float] = {}
        self.order: list[tuple[float, bytes]] = []

    def __len__(self) -> int:
        return len(self.order)

    def copy(self) -> "SortedSet":
        copied = SortedSet()
        copied.scores, copied.order = self.scores.copy(), self.order.copy()
        return copied

    def add(self, member: bytes, score: float) -> bool:
        """Returns whether the member is new."""
        is_new = not self.remove(member)
        self.scores[member] = score
        insort(self.order, (score, member))
        return is_new

    def remove(self, member: bytes) -> bool:
        score = self.scores.pop(member, None)
        if score is None:
            return False
        del self.order[bisect_left(self.order, (score, member))]
        return True


class Stream:
    def __init__(self) -> None:
        self.entries: list[tuple[EntryId, list[bytes]]] = []
        self.last_id: EntryId = (0, 0)

    def __len__(self) -> int:
        return len(self.entries)

    def copy(self) -> "Stream":
        copied = copy(self)
        copied.entries = self.entries.copy()
        return copied

    def add(self, entry_id: EntryId, fields: list[bytes]) -> None:
        if entry_id <= self.last_id:
            raise Refused("ERR", "The ID specified in XADD is equal or smaller than the target stream top item")
        self.entries.append((entry_id, fields))
        self.last_id = entry_id

    def between(self, first: EntryId, last: EntryId) -> list[tuple[EntryId, list[bytes]]]:
        ids = [entry_id for entry_id, _ in self.entries]
        return self.entries[bisect_left(ids, first) : bisect_right(ids, last)]

    def drop_first(self, count: int) -> int:
        count = max(min(count, len(self.entries)), 0)
        del self.entries[:count]
        return count


Value: TypeAlias = bytes | dict[bytes, bytes] | SortedSet | Stream
Words: TypeAlias = list[bytes]
Reply: TypeAlias = Any


def number_text(value: float) -> bytes:
    """Formats a number as Redis does."""
    is_whole = abs(value) < 2**63 and value == int(value)
    return b"%d" % int(value) if is_whole else f"{value:.17g}".encode()


def integer(word: bytes) -> int:
    try:
        return int(word)
    except ValueError:
        raise Refused("ERR", "value is not an integer or out of range") from None


def entry_id(word: bytes, *, sequence: int = 0) -> EntryId:
    ms, dash, number = word.partition(b"-")
    try:
        return int(ms), int(number) if dash else sequence
    except ValueError:
        raise Refused("ERR", "Invalid stream ID specified as stream command argument") from None
