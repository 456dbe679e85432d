"""A batch of asks of one room: one lock, a few statements, one commit.

On PostgreSQL every statement is a round trip, and while it is under way hundreds of requests are answered and begun
before anyone sees that it is back: what a crowd's joins wait for is the number of round trips, not the work. So the
lock, the time and the places are one statement there, and all that is written is another.

A statement sees what was committed before it began, but the row that it locks as it is now: if it had to wait for the
lock, the places it found may be of before. They count only if the room is still the one it saw; else they are looked up
again. That is why whoever changes a place writes the room's row as well, be it without a change.

A batch of nothing but joins is written in a single statement where possible (`join_at_once.py`).
"""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnClause,
    Connection,
    Executable,
    Row,
    ScalarSelect,
    Select,
    Subquery,
    Text,
    Update,
    bindparam,
    cast,
    func,
    insert,
    literal_column,
    select,
    update,
)

from holdfast.domain.room import Place, RoomAsk, RoomState, Stand
from holdfast.ledger.clock import POSTGRES_NOW_MS, Clock
from holdfast.ledger.room_batch import COUNTED, RoomBatch
from holdfast.ledger.room_tables import places, rooms
from holdfast.ledger.rooms import make_room
from holdfast.ledger.rows import encode_rows, insert_rows, rows_matching, rows_parameter

_CHANGED = [places.c[name] for name in ("sale_id", "arrival", "place", "stale_at", "pass_until", "used_at", "ended_at")]
JOINED = [places.c[name] for name in ("sale_id", "arrival", "buyer_id", "ticket_id", "joined_at")]
# All of a room but what the usher remembers, which is long and not needed here.
ROOM = [c for c in rooms.c if c.name != "ushering"]
of_sale_id = rooms.c.sale_id == bindparam("of_sale")
_count = update(rooms).where(of_sale_id).values({name: rooms.c[name] + bindparam(f"more_{name}") for name in COUNTED})

places_from = msgspec.json.Decoder(list[Place]).decode


class Loaded(Struct, frozen=True):
    room: RoomState
    found: Sequence[Place]
    now: int


class Engine(Protocol):
    def load(self, connection: Connection, sale_id: str, buyers: str, clock: Clock) -> Loaded | None:
        """The room, locked, the places of these buyers, and the time, read under the lock, so that places and the
        moments they were taken at have one order. None if there is no room."""

    def store(self, connection: Connection, sale_id: str, batch: RoomBatch) -> None: ...


class RoomQueries:
    """The statements of one engine, built once."""

    def __init__(self, dialect_name: str) -> None:
        self._engine: Engine = _Sqlite() if dialect_name == "sqlite" else _Postgres()

    def apply(self, connection: Connection, sale_id: str, asks: Sequence[RoomAsk], clock: Clock) -> list[Stand]:
        buyers = encode_rows((sale_id, buyer_id) for buyer_id in dict.fromkeys(ask.buyer_id for ask in asks))
        loaded = self._engine.load(connection, sale_id, buyers, clock)
        if loaded is None:
            make_room(connection, sale_id, clock.now_ms(connection))
            loaded = self._engine.load(connection, sale_id, buyers, clock)
            assert loaded is not None
        batch = RoomBatch(loaded.room, {place.buyer_id: place for place in loaded.found}, loaded.now)
        stands = [batch.answer(ask) for ask in asks]
        if batch.changed or batch.joined or any(batch.counted.values()):
            self._engine.store(connection, sale_id, batch)
        return stands


class _Sqlite:
    def __init__(self) -> None:
        self._room = select(*ROOM).where(of_sale_id)
        self._find = find_places("sqlite")
        self._change = update_places("sqlite")
        self._insert = insert_rows("sqlite", places, JOINED)

    def load(self, connection: Connection, sale_id: str, buyers: str, clock: Clock) -> Loaded | None:
        row = connection.execute(self._room, {"of_sale": sale_id}).one_or_none()
        if row is None:
            return None
        return Loaded(room_in(row), _found(connection, self._find, buyers), clock.now_ms(connection))

    def store(self, connection: Connection, sale_id: str, batch: RoomBatch) -> None:
        if batch.changed:
            connection.execute(self._change, {"rows": _changed_rows(sale_id, batch)})
        if batch.joined:
            self._insert(connection, _joined_rows(sale_id, batch))
        connection.execute(_count, _counted(sale_id, batch))


class _Postgres:
    def __init__(self) -> None:
        self._load = _load_at_once()
        self._find = find_places("postgresql")
        self._change = update_places("postgresql")
        given = rows_parameter("postgresql", JOINED)
        join = insert(places).from_select([c.name for c in JOINED], select(*given.c))
        self._join_and_count = _count.add_cte(join.cte("joined"))
        self._change_and_count = _count.add_cte(self._change.cte("changed"))

    def load(self, connection: Connection, sale_id: str, buyers: str, clock: Clock) -> Loaded | None:
        given = {"of_sale": sale_id, "rows": buyers, "now": clock.known_now_ms()}
        row = connection.execute(self._load, given).one_or_none()
        if row is None:
            return None
        found = places_from(row.found) if row.is_as_seen else _found(connection, self._find, buyers)
        return Loaded(room_in(row), found, row.now)

    def store(self, connection: Connection, sale_id: str, batch: RoomBatch) -> None:
        """What ends a place and what makes another of the same buyer cannot be one statement: the order of its parts is
        not told, and for a moment there might be two."""
        counted = _counted(sale_id, batch)
        if batch.changed and batch.joined:
            connection.execute(self._change, {"rows": _changed_rows(sale_id, batch)})
        if batch.joined:
            connection.execute(self._join_and_count, {**counted, "rows": encode_rows(_joined_rows(sale_id, batch))})
        elif batch.changed:
            connection.execute(self._change_and_count, {**counted, "rows": _changed_rows(sale_id, batch)})
        else:
            connection.execute(_count, counted)


def _load_at_once() -> Select[Any]:
    room = locked_room()
    return select(room, places_as_json(find_places("postgresql").subquery("found")).label("found"))


def locked_room() -> Subquery:
    """On PostgreSQL: the room, the time (`:now`, if that is given), and whether it is still as this statement saw it.

    The lock is taken in a subquery, because only what is outside of it is computed when the lock is there.
    """
    version: ColumnClause[str] = literal_column("rooms.ctid")
    locked = select(*ROOM, version.label("version")).where(of_sale_id).with_for_update().subquery("locked")
    seen = select(version).select_from(rooms).where(of_sale_id).scalar_subquery()
    return select(
        *(locked.c[c.name] for c in ROOM),
        func.coalesce(bindparam("now", type_=BigInteger), POSTGRES_NOW_MS).label("now"),
        (locked.c.version == seen).label("is_as_seen"),
    ).subquery("room")


def places_as_json(found: Subquery | CTE) -> ScalarSelect[str]:
    return select(func.coalesce(cast(func.json_agg(found.table_valued()), Text), "[]")).scalar_subquery()


def find_places(dialect_name: str) -> Select[Any]:
    return rows_matching(dialect_name, places, [places.c.sale_id, places.c.buyer_id], places.c.ended_at.is_(None))


def update_places(dialect_name: str) -> Update:
    """Each row names its sale: with the sale as one parameter SQLite walks along the whole line, and reads all the rows
    given anew at every place in it, which took a minute where fifty thousand waited."""
    given = rows_parameter(dialect_name, _CHANGED)
    same = (places.c.sale_id == given.c.sale_id, places.c.arrival == given.c.arrival)
    return update(places).where(*same).values({c.name: given.c[c.name] for c in _CHANGED[2:]})


def room_in(row: Row[Any]) -> RoomState:
    return RoomState(**{c.name: getattr(row, c.name) for c in ROOM})


def _found(connection: Connection, find: Executable, buyers: str) -> list[Place]:
    names = Place.__struct_fields__
    return [Place(*(getattr(row, name) for name in names)) for row in connection.execute(find, {"rows": buyers})]


def _changed_rows(sale_id: str, batch: RoomBatch) -> str:
    changed = batch.changed.values()
    return encode_rows((sale_id, p.arrival, p.place, p.stale_at, p.pass_until, p.used_at, p.ended_at) for p in changed)


def _joined_rows(sale_id: str, batch: RoomBatch) -> list[tuple[object, ...]]:
    return [(sale_id, p.arrival, p.buyer_id, p.ticket_id, p.joined_at) for p in batch.joined]


def _counted(sale_id: str, batch: RoomBatch) -> dict[str, object]:
    return {"of_sale": sale_id} | {f"more_{name}": count for name, count in batch.counted.items()}
