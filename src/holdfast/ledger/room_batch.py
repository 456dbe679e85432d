"""A batch of asks of one room: one lock, a few statements, one commit.

What is counted. A pass is given, and then used, or let go (it lapses, or its holder leaves) and counted as such once:
by the usher when its time is over, up to `reckoned_at`, or here if that happens first. The same for passes that turn
stale. Whoever uses a pass after the usher gave it up is counted back.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from sqlalchemy import Connection, Row, Update, bindparam, select, update

from holdfast.domain.pace import FRESH_PART
from holdfast.domain.room import Admit, Join, Leave, Place, RoomAsk, RoomState, Stand, Standing, Use
from holdfast.ledger.room_tables import places, rooms
from holdfast.ledger.rooms import make_room
from holdfast.ledger.rows import encode_rows, insert_rows, rows_matching, rows_parameter

_PLACE = [places.c[name] for name in Place.__struct_fields__]
_CHANGED = [places.c[name] for name in ("sale_id", "arrival", "place", "stale_at", "pass_until", "used_at", "ended_at")]
_JOINED = [places.c[name] for name in ("sale_id", "arrival", "buyer_id", "ticket_id", "joined_at")]
_COUNTED = (
    "joined", "passes_given", "answered", "passes_used", "stale_used", "units_taken", "passes_lapsed", "passes_stale",
)  # fmt: skip
# All of a room but what the usher remembers, which is long and not needed here.
_ROOM = [c for c in rooms.c if c.name != "ushering"]


Clock: TypeAlias = Callable[[Connection], int]


class RoomQueries:
    """The statements of one engine, built once."""

    def __init__(self, dialect_name: str) -> None:
        keys = [places.c.sale_id, places.c.buyer_id]
        self._lock = select(*_ROOM).where(rooms.c.sale_id == bindparam("of_sale")).with_for_update()
        self._find = rows_matching(dialect_name, places, keys, places.c.ended_at.is_(None))
        self._insert = insert_rows(dialect_name, places, _JOINED)
        self._update = _update_places(dialect_name)

    def apply(self, connection: Connection, sale_id: str, asks: Sequence[RoomAsk], clock: Clock) -> list[Stand]:
        """The time is read under the lock, so that places and the moments they were taken at have one order."""
        room, now = self._locked(connection, sale_id, clock), clock(connection)
        buyers = list(dict.fromkeys(ask.buyer_id for ask in asks))
        given = {"rows": encode_rows((sale_id, buyer_id) for buyer_id in buyers)}
        found = {row.buyer_id: _place(row) for row in connection.execute(self._find, given)}
        batch = RoomBatch(room, found, now)
        stands = [batch.answer(ask) for ask in asks]
        self._store(connection, sale_id, batch)
        return stands

    def _locked(self, connection: Connection, sale_id: str, clock: Clock) -> RoomState:
        row = connection.execute(self._lock, {"of_sale": sale_id}).one_or_none()
        if row is None:
            make_room(connection, sale_id, clock(connection))
            row = connection.execute(self._lock, {"of_sale": sale_id}).one()
        return RoomState(**row._mapping)  # noqa: SLF001 - the documented way to all columns of a row

    def _store(self, connection: Connection, sale_id: str, batch: "RoomBatch") -> None:
        changed = batch.changed.values()
        if changed:
            rows = [(sale_id, p.arrival, p.place, p.stale_at, p.pass_until, p.used_at, p.ended_at) for p in changed]
            connection.execute(self._update, {"rows": encode_rows(rows)})
        if batch.joined:
            joined = [(sale_id, p.arrival, p.buyer_id, p.ticket_id, p.joined_at) for p in batch.joined]
            self._insert(connection, joined)
        counted = {name: rooms.c[name] + count for name, count in batch.counted.items() if count}
        if counted:
            connection.execute(update(rooms).where(rooms.c.sale_id == sale_id).values(**counted))


class RoomBatch:
    """Pure: answers asks one after the other from what was loaded, and gathers what is to be written."""

    def __init__(self, room: RoomState, found: dict[str, Place], now: int) -> None:
        self._room, self._found, self._now = room, found, now
        self.joined: list[Place] = []
        self.changed: dict[int, Place] = {}
        self.counted = dict.fromkeys(_COUNTED, 0)

    def answer(self, ask: RoomAsk) -> Stand:
        place = self._found.get(ask.buyer_id)
        match ask:
            case Join():
                return self._join(ask, place)
            case Admit():
                return self._admit(ask, place if _is_of(place, ask) else None)
            case Use():
                return self._use(ask, place)
            case Leave():
                return self._leave(place if _is_of(place, ask) else None)

    def _stand(self, standing: Standing, place: Place | None = None) -> Stand:
        return Stand(standing, place, self._room.serving)

    def _join(self, ask: Join, place: Place | None) -> Stand:
        if place is not None and not self._is_over(place):
            return self._stand(Standing.WAITING if place.place is None else Standing.ADMITTED, place)
        if ask.only_again:
            return self._stand(Standing.GONE)
        if place is not None:
            self._end(place)
        arrival = self._room.joined + self.counted["joined"]
        place = self._found[ask.buyer_id] = Place(arrival, ask.buyer_id, ask.ticket_id, self._now)
        self.joined.append(place)
        self.counted["joined"] += 1
        return self._stand(Standing.WAITING, place)

    def _admit(self, ask: Admit, place: Place | None) -> Stand:
        if place is None:
            return self._stand(Standing.GONE)
        if place.place is not None:
            return self._stand(Standing.OVER if self._is_over(place) else Standing.ADMITTED, place)
        turn = self._room.place_of(place.arrival)
        if turn >= self._room.serving:
            return self._stand(Standing.WAITING, place)
        place.place = turn
        place.stale_at = self._now + int(ask.pass_ms * FRESH_PART)
        place.pass_until = self._now + ask.pass_ms
        self.changed[place.arrival] = place
        self.counted["passes_given"] += 1
        self.counted["answered"] += turn >= self._room.called_to
        return self._stand(Standing.ADMITTED, place)

    def _use(self, ask: Use, place: Place | None) -> Stand:
        """Of one who buys again with the same pass, the units still count."""
        self.counted["units_taken"] += ask.units
        if place is None or place.stale_at is None or place.pass_until is None or place.used_at is not None:
            return self._stand(Standing.GONE)
        place.used_at = self._now
        self.changed[place.arrival] = place
        self.counted["passes_used"] += 1
        self.counted["stale_used"] += place.stale_at <= self._room.reckoned_at
        self.counted["passes_lapsed"] -= place.pass_until <= self._room.reckoned_at
        return self._stand(Standing.ADMITTED, place)

    def _leave(self, place: Place | None) -> Stand:
        if place is not None:
            self._end(place)
            del self._found[place.buyer_id]
        return self._stand(Standing.GONE)

    def _is_over(self, place: Place) -> bool:
        return place.pass_until is not None and place.pass_until <= self._now

    def _end(self, place: Place) -> None:
        place.ended_at = self._now
        self.changed[place.arrival] = place
        if place.stale_at is None or place.pass_until is None or place.used_at is not None:
            return
        if place.pass_until > self._room.reckoned_at:
            self.counted["passes_lapsed"] += 1
            self.counted["passes_stale"] += place.stale_at > self._room.reckoned_at


def _is_of(place: Place | None, ask: Admit | Leave) -> bool:
    return place is not None and (place.arrival, place.ticket_id) == (ask.arrival, ask.ticket_id)


def _place(row: Row[Any]) -> Place:
    return Place(*(getattr(row, c.name) for c in _PLACE))


def _update_places(dialect_name: str) -> Update:
    """Each row names its sale: with the sale as one parameter SQLite walks along the whole line, and reads all the rows
    given anew at every place in it, which took a minute where fifty thousand waited."""
    given = rows_parameter(dialect_name, _CHANGED)
    same = (places.c.sale_id == given.c.sale_id, places.c.arrival == given.c.arrival)
    return update(places).where(*same).values({c.name: given.c[c.name] for c in _CHANGED[2:]})
