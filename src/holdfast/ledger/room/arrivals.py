"""Staged arrivals: written without a lock, and turned into places later, in order of their stamps.

The model. A buyer gets a provisional ticket while the store does not take joins. Every process writes the arrivals that
it stamped into one table, which needs no lock of the room. `MERGE_AFTER_MS` after the first of them was written, they
become places in order of (stamp, node, sequence), in portions, each in a transaction under the room's lock. The delay
lets every process write its arrivals first, so that the arrivals of all processes share one order.

The invariants. No newcomer gets a place before a staged arrival that is older than `MAY_OVERTAKE_MS`: joins that find
one are staged too. Younger ones may be overtaken, just as concurrent requests to two processes may be; otherwise each
arrival in a busy room would be staged because of the one before, and staging would never end. A buyer has one staged
arrival, the earliest. A buyer who has a place keeps it. A ticket gives one place: it gives no further one after its
buyer left that place or its pass expired.

When it fails. A portion is merged and its arrivals are deleted in one transaction. A ticket that was never staged (its
process was killed) is staged when its buyer presents it. Places given in the meantime stay ahead, and `verify` accepts
that only because it was staged after them.
"""

from collections.abc import Sequence
from functools import cache

from msgspec import Struct
from sqlalchemy import Connection, Delete, delete, func, literal, select, tuple_
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.domain.room.room import Arrival, Join
from holdfast.ledger.engine.clock import Clock
from holdfast.ledger.engine.rows import encode_rows, rows_parameter
from holdfast.ledger.room.queries import room_queries
from holdfast.ledger.room.rooms import lock_room
from holdfast.ledger.tables.room import arrivals

# Servers notice within a second that the store is back, and then write their arrivals.
MERGE_AFTER_MS = 2_000
_COLUMNS = [arrivals.c[name] for name in ("sale_id", "buyer_id", "ticket_id", "arrived_at", "node", "sequence")]
_ORDER = (arrivals.c.arrived_at, arrivals.c.node, arrivals.c.sequence)
_KEY = (arrivals.c.sale_id, arrivals.c.buyer_id)


class Staged(Struct, frozen=True):
    """The staged arrivals of one sale."""

    sale_id: str
    first_staged_at: int

    def is_due(self, now: int) -> bool:
        return now - self.first_staged_at >= MERGE_AFTER_MS


def stage(connection: Connection, given: Sequence[Arrival], now: int) -> None:
    """Safe to repeat. Each buyer and sale must be given once."""
    insert = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    rows = rows_parameter(connection.dialect.name, _COLUMNS)
    # SQLite's parser needs a condition between a select and ON CONFLICT.
    statement = insert(arrivals).from_select(
        [c.name for c in arrivals.c], select(*rows.c, literal(now)).where(rows.c.sale_id.is_not(None))
    )
    new = statement.excluded
    earlier = statement.on_conflict_do_update(
        index_elements=_KEY,
        set_={name: new[name] for name in ("ticket_id", "arrived_at", "node", "sequence")},
        where=new.arrived_at < arrivals.c.arrived_at,
    )
    connection.execute(earlier, {"rows": encode_rows(_row(one) for one in given)})


def _row(one: Arrival) -> tuple[object, ...]:
    return (one.sale_id, one.buyer_id, one.ticket_id, one.arrived_at, one.node, one.sequence)


def find_staged(connection: Connection) -> list[Staged]:
    """For each sale that has staged arrivals."""
    return [Staged(*row) for row in connection.execute(_STAGED)]


_FIRST = func.min(arrivals.c.staged_at)
_STAGED = select(arrivals.c.sale_id, _FIRST).group_by(arrivals.c.sale_id)


def find_staged_of(connection: Connection, sale_id: str) -> Staged | None:
    staged_at = connection.execute(select(_FIRST).where(arrivals.c.sale_id == sale_id)).scalar()
    return None if staged_at is None else Staged(sale_id, staged_at)


def merge(connection: Connection, sale_id: str, clock: Clock, *, limit: int) -> int:
    """Turn the next staged arrivals into places, up to a limit. Returns how many there were."""
    lock_room(connection, sale_id)
    wanted = select(arrivals).where(arrivals.c.sale_id == sale_id).order_by(*_ORDER).limit(limit)
    found = connection.execute(wanted).all()
    if not found:
        return 0
    joins = [
        Join(row.buyer_id, row.ticket_id, arrived_at=row.arrived_at, staged_at=row.staged_at, once=True)
        for row in found
    ]
    room_queries(connection.dialect.name).apply(connection, sale_id, joins, clock)
    keys = encode_rows((sale_id, row.buyer_id) for row in found)
    connection.execute(_deletion(connection.dialect.name), {"rows": keys})
    return len(found)


@cache
def _deletion(dialect_name: str) -> Delete:
    given = rows_parameter(dialect_name, _KEY)
    return delete(arrivals).where(tuple_(*_KEY).in_(select(*given.c)))
