"""The keys of a server, and the commands on them that Holdfast uses.

A command takes the words after its name and returns the reply of Redis. An empty hash or sorted set does not exist; an
empty stream does.
"""

from collections.abc import Callable
from typing import TypeVar
from zlib import crc32

from holdfast.lab.simulate.redis_model.values import (
    LAST_SEQUENCE,
    Refused,
    Reply,
    SortedSet,
    Status,
    Stream,
    Value,
    Words,
    entry_id,
    integer,
    number_text,
)

V = TypeVar("V", bytes, dict[bytes, bytes], SortedSet, Stream)


class Keyspace:
    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.values: dict[bytes, Value] = {}
        self.expires_at: dict[bytes, int] = {}
        self._now_ms = now_ms

    # --- keys

    def found(self, key: bytes, kind: type[V]) -> V | None:
        if key in self.expires_at and self.expires_at[key] <= self._now_ms():
            self.unlink([key])
        value = self.values.get(key)
        if value is not None and not isinstance(value, kind):
            raise Refused("WRONGTYPE", "Operation against a key holding the wrong kind of value")
        return value

    def found_or_new(self, key: bytes, kind: type[V]) -> V:
        value = self.found(key, kind)
        if value is None:
            value = self.values[key] = kind()
        return value

    def _hash(self, key: bytes) -> dict[bytes, bytes]:
        return self.found(key, dict) or {}

    def _drop_if_empty(self, key: bytes) -> None:
        if not self.values[key]:
            self.unlink([key])

    def unlink(self, words: Words) -> int:
        for key in words:
            self.expires_at.pop(key, None)
        return sum(self.values.pop(key, None) is not None for key in words)

    def exists(self, words: Words) -> int:
        return sum(key in self.values for key in words)

    def scan(self, words: Words) -> Reply:
        """Returns everything in one page."""
        _cursor, _match, pattern, *_ = words
        return [b"0", sorted(key for key in self.values if _matches(pattern, key))]

    # --- strings

    def get(self, words: Words) -> Reply:
        return self.found(words[0], bytes)

    def set(self, words: Words) -> Reply:
        key, value, *options = words
        self.unlink([key])
        self.values[key] = value
        if options:
            unit, ttl = options
            if unit.upper() != b"EX":
                raise Refused("ERR", "syntax error")
            self.expires_at[key] = self._now_ms() + 1000 * integer(ttl)
        return Status(b"OK")

    # --- hashes

    def hget(self, words: Words) -> Reply:
        return self._hash(words[0]).get(words[1])

    def hmget(self, words: Words) -> Reply:
        stored = self._hash(words[0])
        return [stored.get(field) for field in words[1:]]

    def hlen(self, words: Words) -> int:
        return len(self._hash(words[0]))

    def hvals(self, words: Words) -> Reply:
        return list(self._hash(words[0]).values())

    def hset(self, words: Words) -> int:
        key, *fields = words
        if not fields or len(fields) % 2:
            raise Refused("ERR", "wrong number of arguments for 'hset' command")
        stored = self.found_or_new(key, dict)
        before = len(stored)
        stored.update(zip(fields[::2], fields[1::2], strict=True))
        return len(stored) - before

    def hdel(self, words: Words) -> int:
        key, *fields = words
        stored = self._hash(key)
        removed = sum(stored.pop(field, None) is not None for field in fields)
        if removed:
            self._drop_if_empty(key)
        return removed

    def hincrby(self, words: Words) -> int:
        key, field, by = words
        try:
            value = int(self._hash(key).get(field, b"0")) + integer(by)
        except ValueError:
            raise Refused("ERR", "hash value is not an integer") from None
        self.found_or_new(key, dict)[field] = b"%d" % value
        return value

    def hscan(self, words: Words) -> Reply:
        """Iterates in hash order, so that a field present all the time is returned whatever is added or removed."""
        key, cursor, *options = words
        asked = dict(zip([word.upper() for word in options[::2]], options[1::2], strict=True))
        count, pattern = integer(asked.get(b"COUNT", b"10")), asked.get(b"MATCH", b"*")
        stored, at = self._hash(key), integer(cursor)
        places = sorted((crc32(field) + 1, field) for field in stored if crc32(field) >= at)
        # Fields with the same hash are always on the same page.
        after = next((place for place, _ in places[count:] if place > places[count - 1][0]), 0)
        page = [field for place, field in places if not after or place < after]
        kept = [field for field in page if _matches(pattern, field)]
        return [b"%d" % max(after - 1, 0), [word for field in kept for word in (field, stored[field])]]

    # --- sorted sets

    def _sorted_set(self, key: bytes) -> SortedSet:
        return self.found(key, SortedSet) or SortedSet()

    def zadd(self, words: Words) -> int:
        key, *pairs = words
        scores = [_score(word) for word in pairs[::2]]
        stored = self.found_or_new(key, SortedSet)
        return sum(stored.add(member, score) for score, member in zip(scores, pairs[1::2], strict=True))

    def zrem(self, words: Words) -> int:
        key, *members = words
        stored = self._sorted_set(key)
        removed = sum(stored.remove(member) for member in members)
        if removed:
            self._drop_if_empty(key)
        return removed

    def zcard(self, words: Words) -> int:
        return len(self._sorted_set(words[0]))

    def zscore(self, words: Words) -> Reply:
        score = self._sorted_set(words[0]).scores.get(words[1])
        return None if score is None else number_text(score)

    def zrange(self, words: Words) -> Reply:
        key, first, last, *options = words
        order, end = self._sorted_set(key).order, integer(last) + 1
        return _members(order[integer(first) : end or None], with_scores=bool(options))

    def zrangebyscore(self, words: Words) -> Reply:
        key, low, high, *options = words
        above, below = _bound(low), _bound(high)
        found = [
            (score, member)
            for score, member in self._sorted_set(key).order
            if (score > above[0] or (score == above[0] and above[1]))
            and (score < below[0] or (score == below[0] and below[1]))
        ]
        upper = [word.upper() for word in options]
        if b"LIMIT" in upper:
            offset, count = (integer(word) for word in options[upper.index(b"LIMIT") + 1 :][:2])
            found = found[offset:] if count < 0 else found[offset : offset + count]
        return _members(found, with_scores=b"WITHSCORES" in upper)

    # --- streams

    def xadd(self, words: Words) -> Reply:
        key, id_, *fields = words
        if entry_id(id_) == (0, 0):
            raise Refused("ERR", "The ID specified in XADD must be greater than 0-0")
        (self.found(key, Stream) or self.found_or_new(key, Stream)).add(entry_id(id_), fields)
        return id_

    def xlen(self, words: Words) -> int:
        return len(self.found(words[0], Stream) or ())

    def xrange(self, words: Words) -> Reply:
        key, first, last, *options = words
        stored = self.found(key, Stream)
        if stored is None:
            return []
        low = (0, 0) if first == b"-" else entry_id(first)
        high = (LAST_SEQUENCE, LAST_SEQUENCE) if last == b"+" else entry_id(last, sequence=LAST_SEQUENCE)
        found = stored.between(low, high)
        found = found[: integer(options[1])] if options else found
        return [[b"%d-%d" % id_, list(fields)] for id_, fields in found]

    def xtrim(self, words: Words) -> int:
        key, strategy, threshold = words
        stored = self.found(key, Stream)
        if stored is None:
            return 0
        if strategy.upper() == b"MAXLEN":
            return stored.drop_first(len(stored) - integer(threshold))
        return stored.drop_first(sum(id_ < entry_id(threshold) for id_, _ in stored.entries))


def _matches(pattern: bytes, field: bytes) -> bool:
    """Supports only the patterns in use: a prefix and a star."""
    return field.startswith(pattern.removesuffix(b"*"))


def _score(word: bytes) -> float:
    try:
        return float(word)
    except ValueError:
        raise Refused("ERR", "value is not a valid float") from None


def _bound(word: bytes) -> tuple[float, bool]:
    """A score, and whether the range includes it."""
    return _score(word.removeprefix(b"(")), not word.startswith(b"(")


def _members(found: list[tuple[float, bytes]], *, with_scores: bool) -> list[bytes]:
    if not with_scores:
        return [member for _, member in found]
    return [word for score, member in found for word in (member, number_text(score))]
