"""The counts that the line advancer reads from the ledger at each step."""

from collections.abc import Collection

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, func, select

from holdfast.domain.room.room import RoomState
from holdfast.ledger.tables.money import is_open_settlement, settlements
from holdfast.ledger.tables.room import places


class Counted(Struct, frozen=True):
    """Buyers' actions since the last step."""

    passes_stale: int
    passes_lapsed: int
    # The called buyers who came, of those whose grace time has ended, and the places that were skipped.
    answered: int


def count_since(connection: Connection, room: RoomState, called_to: int, now: int) -> Counted:
    """Count buyers' actions since the last step, under the lock of the room."""
    is_idle = (places.c.used_at.is_(None), places.c.ended_at.is_(None))

    def between(moment: ColumnElement[int]) -> int:
        return _count(connection, room, moment > room.counted_at, moment <= now, *is_idle)

    return Counted(
        between(places.c.stale_at),
        between(places.c.pass_until),
        _count(connection, room, places.c.place >= room.called_to, places.c.place < called_to)
        + _count_of(connection, room, places.c.left_place >= room.called_to, places.c.left_place < called_to),
    )


def _count(connection: Connection, room: RoomState, *conditions: ColumnElement[bool]) -> int:
    return _count_of(connection, room, places.c.place.is_not(None), *conditions)


def _count_of(connection: Connection, room: RoomState, *conditions: ColumnElement[bool]) -> int:
    found = select(func.count()).select_from(places).where(places.c.sale_id == room.sale_id, *conditions)
    return int(connection.execute(found).scalar_one())


def settlement_lag_ms(connection: Connection, sku_ids: Collection[str], now: int) -> int:
    """The age of the oldest payment that is due."""
    oldest = select(func.min(settlements.c.due_at)).where(settlements.c.sku_id.in_(sku_ids), is_open_settlement)
    return max(now - int(connection.execute(oldest).scalar() or now), 0)
