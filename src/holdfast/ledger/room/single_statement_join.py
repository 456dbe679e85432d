"""Joins a crowd on PostgreSQL in one statement that locks the room, finds existing places and adds the new ones.

The model. In a rush, a batch is nothing but joins, nearly all of buyers who are not in line yet. For those nothing has
to be decided between reading and writing, so both are one autocommitted statement: one round trip instead of four. The
results still come from `RoomBatch`, based on what the statement read.

The invariants. The statement writes only if all of this holds under the lock: the line is still as the statement saw it
(see `queries.py`); no arrivals are staged; no pass has expired, because its holder would have to exchange one place for
another; and none of the buyers left before, because they may have lost the right to a place. It then writes exactly
those to whom `RoomBatch` would give a place, in the same order. In every other case it writes nothing, and the batch
falls back to a transaction.

When it fails. While several processes fill one line, each finds that the line has changed while it waited for the lock.
So after a failed attempt the next batches skip this statement.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    CTE,
    Column,
    ColumnElement,
    Connection,
    Integer,
    ScalarSelect,
    Select,
    Text,
    and_,
    cast,
    exists,
    func,
    insert,
    literal,
    not_,
    select,
    true,
    update,
)

from holdfast.domain.room.room import Join, RoomAsk, Stand
from holdfast.ledger.engine.prepared import prepared
from holdfast.ledger.engine.rows import encode_rows, rows_parameter
from holdfast.ledger.room.batch import RoomBatch
from holdfast.ledger.room.queries import (
    EVENT,
    JOINED,
    find_places,
    has_arrivals,
    locked_room,
    of_sale_id,
    places_as_json,
    places_from,
    room_in,
)
from holdfast.ledger.room.rooms import CHANGED, stream_of, was_left
from holdfast.ledger.tables.room import places, rooms
from holdfast.ledger.tables.stock import events

# A failed attempt costs one extra round trip, which is little compared to the savings where one process serves a room.
SKIPPED_AFTER_FAILURE = 16
_GIVEN = (places.c.sale_id, places.c.buyer_id, places.c.ticket_id, places.c.arrived_at)


class SingleStatementJoin:
    def __init__(self) -> None:
        self._statement = prepared("postgresql", _statement())
        self._skipped = 0

    def joins_in(self, asks: Sequence[RoomAsk]) -> list[Join] | None:
        """The joins of the batch, if an attempt is worthwhile."""
        if self._skipped:
            self._skipped -= 1
            return None
        joins = [ask for ask in asks if isinstance(ask, Join) and not ask.only_again]
        return joins if len(joins) == len(asks) else None

    def join(self, sale_id: str, joins: Sequence[Join], now: int | None, connection: Connection) -> list[Stand] | None:
        """None if nothing was written."""
        first: dict[str, Join] = {}
        for join in joins:
            first.setdefault(join.buyer_id, join)
        rows = encode_rows(
            (sale_id, j.buyer_id, j.ticket_id, j.arrived_at, number) for number, j in enumerate(first.values())
        )
        given = {"of_sale": sale_id, "rows": rows, "now": now}
        row = next(iter(self._statement.all(connection, given)), None)
        if row is None or not row.is_done:
            self._skipped = SKIPPED_AFTER_FAILURE
            return None
        batch = RoomBatch(room_in(row), {place.buyer_id: place for place in places_from(row.found)}, row.now, {})
        stands = [batch.answer(join) for join in joins]
        assert row.newcomers == len(batch.joined)
        return stands


def _statement() -> Select[Any]:
    room = select(locked_room()).cte("room")
    given = select(rows_parameter("postgresql", [*_GIVEN, Column("number", Integer)])).cte("given")
    found = find_places("postgresql").cte("found")
    over = exists().where(found.c.pass_until <= room.c.now)
    again = given.alias("again")
    theirs = and_(places.c.sale_id == again.c.sale_id, places.c.buyer_id == again.c.buyer_id)
    left = exists().select_from(again.join(places, theirs)).where(was_left)
    is_done = and_(room.c.is_as_seen, not_(over), not_(left), not_(has_arrivals(room.c.now)))
    newcomers = (
        select(given, (func.row_number().over(order_by=given.c.number) - 1).label("behind"))
        .join_from(given, room, is_done)
        .where(not_(exists().where(found.c.buyer_id == given.c.buyer_id)))
        .cte("newcomers")
    )
    count = select(func.count()).select_from(newcomers).scalar_subquery()
    return (
        select(room, is_done.label("is_done"), count.label("newcomers"), places_as_json(found).label("found"))
        .add_cte(_inserted(newcomers, room))
        .add_cte(_counted(newcomers, count))
        .add_cte(_recorded(newcomers, room, count))
    )


def _inserted(newcomers: CTE, room: CTE) -> CTE:
    new, arrival = newcomers.c, room.c.joined + newcomers.c.behind
    rows = select(new.sale_id, arrival, new.buyer_id, new.ticket_id, room.c.now, _arrived_at(newcomers, room))
    rows = rows.join_from(newcomers, room, true())
    return insert(places).from_select([c.name for c in JOINED], rows).cte("inserted")


def _arrived_at(newcomers: CTE, room: CTE) -> ColumnElement[int]:
    """Never later than the join, because the clocks of processes differ a little."""
    return func.least(func.coalesce(newcomers.c.arrived_at, room.c.now), room.c.now)


def _recorded(newcomers: CTE, room: CTE, count: ScalarSelect[int]) -> CTE:
    """The event, as `queries.py` writes it."""
    # Both lists in row order.
    rows = select(newcomers.c.buyer_id, newcomers.c.ticket_id, _arrived_at(newcomers, room).label("arrived_at"))
    joined = rows.join_from(newcomers, room, true()).order_by(newcomers.c.number).subquery("new_places")
    after = func.json_build_array(func.json_build_object("sale_id", room.c.sale_id, "joined", room.c.joined + count))
    lists = func.json_build_array(*(func.json_agg(joined.c[name]) for name in ("buyer_id", "ticket_id", "arrived_at")))
    who = select(lists).scalar_subquery()
    facts = cast(func.json_build_object("joined", who, "rooms", after), Text)
    stream = literal(stream_of("")) + room.c.sale_id
    row = select(stream, literal(CHANGED), room.c.now, room.c.sale_id, facts).where(exists().select_from(newcomers))
    return insert(events).from_select([c.name for c in EVENT], row).cte("recorded")


def _counted(newcomers: CTE, count: ScalarSelect[int]) -> CTE:
    counted = update(rooms).where(of_sale_id, exists().select_from(newcomers)).values(joined=rooms.c.joined + count)
    return counted.cte("counted")
