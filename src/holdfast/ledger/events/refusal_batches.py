"""Batches of refusals: written by every server and searchable from any."""

from collections.abc import Iterator, Sequence
from zlib import crc32

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, and_, delete, exists, insert, or_, select, tuple_, update

from holdfast.ledger.tables.refusals import BUCKETS, RECENT, refusal_batches

# A search reads the latest ones: some thousand rows of one second each, or many days of finished segments.
SEARCHED_MAX = 20_000
_KEY = (refusal_batches.c.segment, refusal_batches.c.bucket, refusal_batches.c.number)


class RefusalBatch(Struct, frozen=True):
    segment: str
    bucket: int
    number: int
    first_at: int
    last_at: int
    lines: bytes


def bucket_of(owner_id: str) -> int:
    return crc32(owner_id.encode()) % BUCKETS


def add_batches(connection: Connection, batches: Sequence[RefusalBatch]) -> None:
    connection.execute(insert(refusal_batches), [_values(batch) for batch in batches])


def replace_batches(connection: Connection, segment: str, batches: Sequence[RefusalBatch]) -> None:
    """Write the rows of a finished segment. Safe to repeat."""
    connection.execute(delete(refusal_batches).where(refusal_batches.c.segment == segment))
    if batches:
        add_batches(connection, batches)


def _values(batch: RefusalBatch) -> dict[str, object]:
    return {name: getattr(batch, name) for name in RefusalBatch.__struct_fields__}


def find_batches(
    connection: Connection, owner_id: str, since: int | None, until: int | None, without: Sequence[str]
) -> list[RefusalBatch]:
    """The batches that may have refusals of an owner, latest first. Rows of a second that arrived after their segment
    was finished are included in the segment's rows, too."""
    whole = refusal_batches.alias("whole")
    is_whole = exists().where(whole.c.segment == refusal_batches.c.segment, whole.c.bucket >= 0)
    is_recent = and_(refusal_batches.c.bucket == RECENT, ~is_whole)
    wanted = select(refusal_batches).where(or_(refusal_batches.c.bucket == bucket_of(owner_id), is_recent))
    if since is not None:
        wanted = wanted.where(refusal_batches.c.last_at >= since)
    if until is not None:
        wanted = wanted.where(refusal_batches.c.first_at < until)
    latest = wanted.order_by(refusal_batches.c.last_at.desc()).limit(SEARCHED_MAX)
    left_out = frozenset(without)
    return [RefusalBatch(*row) for row in connection.execute(latest) if row.segment not in left_out]


def all_batches(connection: Connection, owner_id: str) -> Iterator[RefusalBatch]:
    """All batches that may have refusals of an owner, however many."""
    may_have = refusal_batches.c.bucket.in_((bucket_of(owner_id), RECENT))
    # One at a time: together they may be gigabytes.
    keys = connection.execute(select(*_KEY).where(may_have)).all()
    for key in keys:
        row = connection.execute(select(refusal_batches).where(_is(key))).one_or_none()
        if row is not None:
            yield RefusalBatch(*row)


def change_lines(connection: Connection, batch: RefusalBatch, lines: bytes | None) -> None:
    """Replace the lines of a batch; with None, delete the batch."""
    own = _is((batch.segment, batch.bucket, batch.number))
    change = delete(refusal_batches) if lines is None else update(refusal_batches).values(lines=lines)
    connection.execute(change.where(own))


def _is(key: Sequence[object]) -> ColumnElement[bool]:
    return and_(*(column == value for column, value in zip(_KEY, key, strict=True)))


def prune_refusals(connection: Connection, older_than: int, *, limit: int) -> int:
    old = select(*_KEY).where(refusal_batches.c.last_at < older_than).limit(limit)
    return connection.execute(delete(refusal_batches).where(tuple_(*_KEY).in_(old))).rowcount
