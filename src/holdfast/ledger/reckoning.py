"""What the usher asks of the ledger at each step, and what it writes."""

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, func, select

from holdfast.domain.room import RoomState
from holdfast.ledger.room_tables import places
from holdfast.ledger.sale_tables import is_open_settlement, settlements


class Reckoned(Struct, frozen=True):
    """What has become of people since the last step."""

    passes_stale: int
    passes_lapsed: int
    # Of those whose time to come is over now, the ones who had come.
    answered: int


def reckon(connection: Connection, room: RoomState, called_to: int, now: int) -> Reckoned:
    """Under the room's lock."""
    is_idle = (places.c.used_at.is_(None), places.c.ended_at.is_(None))

    def between(moment: ColumnElement[int]) -> int:
        return _count(connection, room, moment > room.reckoned_at, moment <= now, *is_idle)

    return Reckoned(
        between(places.c.stale_at),
        between(places.c.pass_until),
        _count(connection, room, places.c.place >= room.called_to, places.c.place < called_to),
    )


def _count(connection: Connection, room: RoomState, *conditions: ColumnElement[bool]) -> int:
    of_room = (places.c.sale_id == room.sale_id, places.c.place.is_not(None))
    return int(connection.execute(select(func.count()).select_from(places).where(*of_room, *conditions)).scalar_one())


def settlement_lag_ms(connection: Connection, sku_id: str, now: int) -> int:
    """How long the oldest payment that could be worked on has waited."""
    oldest = select(func.min(settlements.c.due_at)).where(settlements.c.sku_id == sku_id, is_open_settlement)
    return max(now - int(connection.execute(oldest).scalar() or now), 0)
