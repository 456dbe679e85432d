"""A crowd joins on PostgreSQL: one statement that locks the room, finds who has a place, and gives all others the next.

The model. A batch of a crowd is joins and nothing else, nearly all of them of people who are not in line yet. For those
there is nothing to decide between reading and writing, so both are one statement, which commits by itself: one round
trip, where a transaction takes four. What everyone is told is still said by `RoomBatch`, from what the statement read.

The invariants. The statement writes only if what it saw of the line holds under the lock (see `room_queries.py`) and
nobody's pass is over, who would have to give up one place for another; and then for exactly those whom `RoomBatch`
would give a place, in the same order. In every other case it writes nothing, and the batch goes the long way.

When it fails. While several processes fill one line, each finds that it has changed while it waited for the lock; so
after one attempt in vain the next batches go the long way at once.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    CTE,
    Column,
    Connection,
    Integer,
    ScalarSelect,
    Select,
    and_,
    exists,
    func,
    insert,
    not_,
    select,
    true,
    update,
)

from holdfast.domain.room import Join, RoomAsk, Stand
from holdfast.ledger.room_batch import RoomBatch
from holdfast.ledger.room_queries import (
    JOINED,
    find_places,
    locked_room,
    of_sale_id,
    places_as_json,
    places_from,
    room_in,
)
from holdfast.ledger.room_tables import places, rooms
from holdfast.ledger.rows import encode_rows, rows_parameter

# An attempt in vain costs a round trip more, which is little beside what it wins for the batches of one process alone.
LONG_WAY_AFTER = 16
_GIVEN = (places.c.sale_id, places.c.buyer_id, places.c.ticket_id)


class JoinAtOnce:
    def __init__(self) -> None:
        self._statement = _statement()
        self._long_way_for = 0

    def joins_in(self, asks: Sequence[RoomAsk]) -> list[Join] | None:
        """The batch, if it is worth an attempt."""
        if self._long_way_for:
            self._long_way_for -= 1
            return None
        joins = [ask for ask in asks if isinstance(ask, Join) and not ask.only_again]
        return joins if len(joins) == len(asks) else None

    def join(self, sale_id: str, joins: Sequence[Join], now: int | None, connection: Connection) -> list[Stand] | None:
        """None if nothing was written."""
        first: dict[str, Join] = {}
        for join in joins:
            first.setdefault(join.buyer_id, join)
        rows = encode_rows((sale_id, j.buyer_id, j.ticket_id, number) for number, j in enumerate(first.values()))
        row = connection.execute(self._statement, {"of_sale": sale_id, "rows": rows, "now": now}).one_or_none()
        if row is None or not row.is_done:
            self._long_way_for = LONG_WAY_AFTER
            return None
        batch = RoomBatch(room_in(row), {place.buyer_id: place for place in places_from(row.found)}, row.now)
        stands = [batch.answer(join) for join in joins]
        assert row.newcomers == len(batch.joined)
        return stands


def _statement() -> Select[Any]:
    room = select(locked_room()).cte("room")
    given = select(rows_parameter("postgresql", [*_GIVEN, Column("number", Integer)])).cte("given")
    found = find_places("postgresql").cte("found")
    over = exists().where(found.c.pass_until <= room.c.now)
    is_done = and_(room.c.is_as_seen, not_(over))
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
    )


def _inserted(newcomers: CTE, room: CTE) -> CTE:
    new, arrival = newcomers.c, room.c.joined + newcomers.c.behind
    rows = select(new.sale_id, arrival, new.buyer_id, new.ticket_id, room.c.now).join_from(newcomers, room, true())
    return insert(places).from_select([c.name for c in JOINED], rows).cte("inserted")


def _counted(newcomers: CTE, count: ScalarSelect[int]) -> CTE:
    counted = update(rooms).where(of_sale_id, exists().select_from(newcomers)).values(joined=rooms.c.joined + count)
    return counted.cte("counted")
