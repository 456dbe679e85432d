"""Finds the owners who were granted units of a pool on PostgreSQL since the last read, while any process may grant.

Every grant writes the row of its pool and an event, under the lock of that row. So the events of one pool are committed
in the order of their numbers, and a reader that has reached one has missed none before it. One statement reads a single
snapshot: the row of the pool, its earliest deadline, and, if the row has changed since the last read, the events since
then.

The first mark is the highest event number of any pool. A transaction that took such a number for an event of this pool
held the pool's lock by then, so it has ended once that lock is acquired; later reads include its events.
"""

from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import (
    BigInteger,
    Connection,
    Row,
    Select,
    String,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    null,
    select,
)
from sqlalchemy import literal_column as literal

from holdfast.ledger.engine.limits import waiting_for_lock
from holdfast.ledger.engine.prepared import Prepared
from holdfast.ledger.tables.stock import events, pools, reservations

# Events of all pools since the last event of this one. Reading more takes longer than rebuilding a filter.
EVENTS_MAX = 20_000
LOCK_WAIT_MS = 1_000

_sku_id = bindparam("sku_id", type_=String)
_mark = bindparam("mark", type_=BigInteger)
# The transaction that wrote the row.
_version = cast(literal("pools.xmin"), Text)
_last_event = select(func.coalesce(func.max(events.c.seq), literal("0")))
_lock = (
    select(pools.c.sku_id)
    .where(pools.c.sku_id == _sku_id, waiting_for_lock(bindparam("wait_ms", type_=String)))
    .with_for_update(read=True)
)
_decode = msgspec.json.Decoder(list[tuple[int, str | None]]).decode


class OwnersMark(Struct, frozen=True):
    """The last event of a pool up to which all owners are known, and the version of its row then."""

    seq: int
    version: str = ""


class NewOwners(Struct, frozen=True):
    pool: Row[Any]
    owner_ids: list[str]
    mark: OwnersMark


def first_mark(connection: Connection, sku_id: str) -> OwnersMark | None:
    """Reading the pool after this finds every owner up to this mark. None if there is no such pool."""
    last = connection.execute(_last_event).scalar_one()
    locked = connection.execute(_lock, {"sku_id": sku_id, "wait_ms": str(LOCK_WAIT_MS)}).one_or_none()
    return None if locked is None else OwnersMark(last)


def new_owners(connection: Connection, statement: Prepared, sku_id: str, mark: OwnersMark) -> NewOwners | None:
    """Runs a statement built by `with_new_owners`. None if there is no such pool, or too much has happened since."""
    given = {"sku_id": sku_id, "mark": mark.seq, "version": mark.version}
    row = next(iter(statement.all(connection, given)), None)
    if row is None:
        return None
    if row.later is None:
        return NewOwners(row, [], mark)
    if row.last_event > mark.seq + EVENTS_MAX:
        return None
    later = _decode(row.later)
    seq = max([mark.seq, *(seq for seq, _ in later)])
    return NewOwners(row, [owner_id for _, owner_id in later if owner_id is not None], OwnersMark(seq, row.version))


def with_new_owners(pool: Select[Any]) -> Select[Any]:
    """A query for the row of the pool `:sku_id`, and with it the owners with grants since `:mark`."""
    is_new = _version != bindparam("version", type_=Text)
    e, r = events.c, reservations.c
    of_pool = and_(e.seq > _mark, e.seq <= _mark + literal(str(EVENTS_MAX)), e.sku_id == _sku_id)
    # Only grants name an owner; other events just move the mark. A subquery for each, because the planner cannot turn
    # it into a join that reads the whole table.
    owner_id = select(r.owner_id).where(r.reservation_id == e.reservation_id).correlate(events).scalar_subquery()
    granted_to = case((e.type == literal("'reservation.created'"), owner_id), else_=null())
    told = select(func.json_agg(func.json_build_array(e.seq, granted_to)))
    later = func.coalesce(cast(told.where(of_pool).scalar_subquery(), Text), literal("'[]'"))
    return pool.add_columns(
        _version.label("version"),
        case((is_new, later), else_=null()).label("later"),
        case((is_new, _last_event.scalar_subquery()), else_=null()).label("last_event"),
    )
