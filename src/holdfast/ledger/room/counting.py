"""The counts that the line advancer reads from the ledger at each step."""

from collections.abc import Collection

from msgspec import Struct
from sqlalchemy import Connection, Select, bindparam, func, select

from holdfast.domain.room.room import RoomState
from holdfast.ledger.tables.money import is_open_settlement, settlements
from holdfast.ledger.tables.room import places


class Counted(Struct, frozen=True):
    """Buyers' actions since the last step."""

    passes_stale: int
    passes_lapsed: int
    # Called buyers who came, counted when their grace time has ended, plus skipped places.
    answered: int


def count_since(connection: Connection, room: RoomState, called_to: int, now: int) -> Counted:
    """Count buyers' actions since the last step, under the lock of the room."""

    def count(query: Select[int], first: int, last: int) -> int:
        given = {"of_sale": room.sale_id, "first": first, "last": last}
        return int(connection.execute(query, given).scalar_one())

    return Counted(
        count(_STALE, room.counted_at, now),
        count(_LAPSED, room.counted_at, now),
        count(_CALLED, room.called_to, called_to) + count(_LEFT, room.called_to, called_to),
    )


# Built once: they are run at every step of a line.
_OF_SALE = select(func.count()).select_from(places).where(places.c.sale_id == bindparam("of_sale"))
_PLACED = _OF_SALE.where(places.c.place.is_not(None))
_IDLE = _PLACED.where(places.c.used_at.is_(None), places.c.ended_at.is_(None))
_STALE, _LAPSED = (
    _IDLE.where(moment > bindparam("first"), moment <= bindparam("last"))
    for moment in (places.c.stale_at, places.c.pass_until)
)
_CALLED, _LEFT = (
    query.where(place >= bindparam("first"), place < bindparam("last"))
    for query, place in ((_PLACED, places.c.place), (_OF_SALE, places.c.left_place))
)


def settlement_lag_ms(connection: Connection, sku_ids: Collection[str], now: int) -> int:
    """The age of the oldest payment that is due."""
    oldest = select(func.min(settlements.c.due_at)).where(settlements.c.sku_id.in_(sku_ids), is_open_settlement)
    return max(now - int(connection.execute(oldest).scalar() or now), 0)
