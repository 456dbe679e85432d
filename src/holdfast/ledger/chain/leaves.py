"""The hashes of single events and of ranges of the history.

The input of a hash is the row as compact JSON, with every column, as the database encodes it. A column that is added
later must contribute nothing where it is empty, so that older hashes stay valid.

For linking, SQLite joins thousands of events into one value: reading them row by row takes twice as long and holds the
interpreter lock, which requests need. PostgreSQL computes the hashes itself and sends only those.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    LargeBinary,
    Select,
    Subquery,
    Text,
    bindparam,
    cast,
    delete,
    exists,
    func,
    insert,
    literal_column,
    select,
)

from holdfast.domain.chain.merkle import HASH_SIZE, leaf_hash
from holdfast.ledger.tables.chain import pruned_events
from holdfast.ledger.tables.stock import events

NAMES = ("seq", "sku_id", "reservation_id", "type", "at", "quantity", "expires_at", "subject", "facts")
_COLUMNS = [events.c[name] for name in NAMES]
# Between two rows. In JSON it is always escaped.
_SEPARATOR = b"\x1e"
# Rows per statement, below the parameter limit of every engine.
PART = 10_000
# Events that a thread hashes in one go: meanwhile the event loop waits for the interpreter lock.
HASHED_MAX = 2_000


def read_contents(connection: Connection, *conditions: ColumnElement[bool]) -> list[tuple[int, str]]:
    """The hashed content of these events, in order, with their numbers."""
    rows = select(*_COLUMNS).where(*conditions).subquery("chosen")
    content = _content(connection.dialect.name, rows)
    return [(seq, text) for seq, text in connection.execute(select(rows.c.seq, content).order_by(rows.c.seq))]


def read_hashes(connection: Connection, after: int | None, upto: int) -> list[tuple[int, bytes]]:
    """The hashes of these events in order, with their numbers; for pruned events, the stored hashes."""
    found = [(seq, leaf_hash(text.encode())) for seq, text in read_contents(connection, *_between(events, after, upto))]
    kept = select(pruned_events.c.seq, pruned_events.c.hash).where(*_between(pruned_events, after, upto))
    # An event that is pruned between the two statements appears in both, with the same hash.
    return sorted((dict(found) | {row.seq: bytes.fromhex(row.hash) for row in connection.execute(kept)}).items())


def _between(table: Any, after: int | None, upto: int) -> list[ColumnElement[bool]]:
    later = [] if after is None else [table.c.seq > after]
    return [*later, table.c.seq <= upto]


class HashQueries:
    """The statements of one engine, built once."""

    def __init__(self, dialect_name: str) -> None:
        # PostgreSQL computes the hashes. For SQLite our thread does, and must not block others.
        self._hashes_itself = dialect_name == "postgresql"
        self._limit = PART if self._hashes_itself else HASHED_MAX
        self._next = _next_events(dialect_name)

    def read(self, connection: Connection, after: int, upto: int) -> tuple[int, list[bytes]]:
        """The hashes of the next events, at most `PART` if none was pruned, and the number of the last."""
        given = {"after": after, "upto": upto, "limit": self._limit}
        count, last, joined, has_pruned = connection.execute(self._next, given).one()
        last = upto if count < self._limit else last
        if has_pruned:
            return last, [each for _, each in read_hashes(connection, after, last)]
        if self._hashes_itself:
            return last, [joined[at : at + HASH_SIZE] for at in range(0, count * HASH_SIZE, HASH_SIZE)]
        return last, [leaf_hash(content) for content in joined.split(_SEPARATOR)] if count else []


def _next_events(dialect_name: str) -> Select[int, Any, bytes, bool]:
    """How many of the next events there are, the last of them, their hashed contents or their hashes joined into one
    value, and whether events in this range were pruned. Both engines join rows in the order of their arrival."""
    after, upto = bindparam("after", type_=BigInteger), bindparam("upto", type_=BigInteger)
    is_next = events.c.seq > after, events.c.seq <= upto
    rows = select(*_COLUMNS).where(*is_next).order_by(events.c.seq).limit(bindparam("limit")).subquery("chosen")
    has_pruned = exists().where(pruned_events.c.seq > after, pruned_events.c.seq <= upto)
    content = _content(dialect_name, rows)
    joined: ColumnElement[bytes]
    if dialect_name == "sqlite":
        joined = cast(func.group_concat(content, _SEPARATOR.decode()), LargeBinary)
    else:
        leaf: ColumnElement[bytes] = literal_column(r"'\x00'::bytea").op("||")(func.convert_to(content, "UTF8"))
        joined = func.string_agg(func.sha256(leaf), literal_column("''::bytea"), type_=LargeBinary)
    return select(func.count(), func.max(rows.c.seq), joined, has_pruned).select_from(rows)


def _content(dialect_name: str, rows: Subquery) -> ColumnElement[str]:
    if dialect_name == "sqlite":
        named = chain.from_iterable((literal_column(f"'{name}'"), rows.c[name]) for name in NAMES)
        content: ColumnElement[str] = func.json_object(*named)
        return content
    return cast(func.row_to_json(literal_column(rows.name)), Text)


def hashes_of(connection: Connection, seqs: Sequence[int]) -> dict[int, bytes]:
    """Keyed by event number. The numbers are given in order."""
    found: dict[int, bytes] = {}
    for part in (seqs[at : at + PART] for at in range(0, len(seqs), PART)):
        found |= {seq: leaf_hash(text.encode()) for seq, text in read_contents(connection, events.c.seq.in_(part))}
    return found


def unkept(connection: Connection, seqs: Sequence[int]) -> list[int]:
    """Leaves out events whose hashes are already stored, because a buyer was erased from them."""
    kept = set[int]()
    for part in (seqs[at : at + PART] for at in range(0, len(seqs), PART)):
        kept |= set(connection.execute(select(pruned_events.c.seq).where(pruned_events.c.seq.in_(part))).scalars())
    return [seq for seq in seqs if seq not in kept]


def prune_events(connection: Connection, seqs: Sequence[int], hashes: dict[int, bytes], pruned_by: int) -> None:
    """Delete events and keep the given hashes of them. `pruned_by` is the event that stands for them."""
    rows = [{"seq": seq, "hash": digest.hex(), "pruned_by": pruned_by} for seq, digest in hashes.items()]
    if rows:
        connection.execute(insert(pruned_events), rows)
    for part in (seqs[at : at + PART] for at in range(0, len(seqs), PART)):
        connection.execute(delete(events).where(events.c.seq.in_(part)))
