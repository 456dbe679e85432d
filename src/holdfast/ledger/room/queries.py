"""A batch of requests to one room: one lock, a few statements, one commit.

On PostgreSQL every statement is a round trip, during which the event loop serves hundreds of other requests before it
sees the reply: the latency of joins depends on the number of round trips, not on the work. So one statement there takes
the lock and reads the time and the places, and another does all writes.

A statement sees what was committed before it began, but locks the current version of a row. If it had to wait for the
lock, the places it found may be outdated. They count only if the room still has the version it saw; otherwise they are
read again. For that reason every change of a place also writes the room's row, even if that does not change.

A batch of nothing but joins is written in a single statement where possible (`single_statement_join.py`).
"""

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnClause,
    ColumnElement,
    Connection,
    Exists,
    Row,
    ScalarSelect,
    Select,
    Subquery,
    Text,
    Update,
    bindparam,
    cast,
    exists,
    func,
    insert,
    literal_column,
    select,
    update,
)

from holdfast.domain.room.room import Join, Leave, Place, RoomAsk, RoomState, Stand
from holdfast.ledger.engine.clock import POSTGRES_NOW_MS, Clock
from holdfast.ledger.engine.facts import encode_facts
from holdfast.ledger.engine.prepared import Prepared, prepared
from holdfast.ledger.engine.rows import encode_rows, insert_rows, rows_matching, rows_parameter
from holdfast.ledger.room.batch import COUNTED, RoomBatch
from holdfast.ledger.room.rooms import CHANGED, make_room, stream_of, was_left, with_leavers
from holdfast.ledger.tables.room import FOR_ADVANCER, arrivals, places, rooms
from holdfast.ledger.tables.stock import events

# After `sale_id`, in the order that events use, too.
CHANGED_COLUMNS = ("arrival", "place", "stale_at", "pass_until", "used_at", "ended_at", "left_place")
_CHANGED = [places.c[name] for name in ("sale_id", *CHANGED_COLUMNS)]
JOINED = [places.c[name] for name in ("sale_id", "arrival", "buyer_id", "ticket_id", "joined_at", "arrived_at")]
MERGED = [*JOINED, places.c.staged_at]
EVENT = [events.c[name] for name in ("sku_id", "type", "at", "subject", "facts")]
# Longer than a staged arrival waits to be merged (`arrivals.py`), and less than the skew that `verify` accepts.
MAY_OVERTAKE_MS = 2_800
# All columns of a room except those that only the line advancer and the pruner need.
ROOM = [c for c in rooms.c if c.name not in ("advancer_state", "unpruned_before")]
of_sale_id = rooms.c.sale_id == bindparam("of_sale")
_count = update(rooms).where(of_sale_id).values({name: rooms.c[name] + bindparam(f"more_{name}") for name in COUNTED})

places_from = msgspec.json.Decoder(list[Place]).decode


class Loaded(Struct, frozen=True):
    room: RoomState
    found: Sequence[Place]
    now: int
    # Whether there are staged arrivals that must not be overtaken.
    is_merging: bool


class Engine(Protocol):
    def load(self, connection: Connection, sale_id: str, buyers: str, clock: Clock) -> Loaded | None:
        """The locked room, the places of these buyers, and the time. The time is read under the lock, so that places
        and the moments they were taken have one order. None if there is no room."""

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
        found = {place.buyer_id: place for place in loaded.found}
        # A buyer who leaves in this batch may also join again in it.
        counted = {ask.buyer_id for ask in asks if isinstance(ask, Leave) or ask.buyer_id not in found}
        leaves = _leaves_of(connection, loaded.room, counted)
        room = with_leavers(connection, loaded.room)
        used = _used_tickets(connection, sale_id, asks)
        batch = RoomBatch(room, found, loaded.now, leaves, is_merging=loaded.is_merging, used_tickets=used)
        stands = [batch.answer(ask) for ask in asks]
        if batch.changed or batch.joined or any(batch.counted.values()):
            self._engine.store(connection, sale_id, batch)
        return stands


room_queries = cache(RoomQueries)


class _Sqlite:
    def __init__(self) -> None:
        is_merging = has_arrivals(bindparam("now", type_=BigInteger)).label("is_merging")
        self._room = prepared("sqlite", select(*ROOM, is_merging).where(of_sale_id))
        self._find = prepared("sqlite", find_places("sqlite"))
        self._change = prepared("sqlite", update_places("sqlite"))
        self._count = prepared("sqlite", _count)
        self._insert = insert_rows("sqlite", places, MERGED)
        self._record = insert_rows("sqlite", events, EVENT)

    def load(self, connection: Connection, sale_id: str, buyers: str, clock: Clock) -> Loaded | None:
        now = clock.now_ms(connection)
        row = next(iter(self._room.all(connection, {"of_sale": sale_id, "now": now})), None)
        if row is None:
            return None
        return Loaded(room_in(row), _found(connection, self._find, buyers), now, row.is_merging)

    def store(self, connection: Connection, sale_id: str, batch: RoomBatch) -> None:
        if batch.changed:
            self._change.run(connection, {"rows": _changed_rows(sale_id, batch)})
        if batch.joined:
            self._insert(connection, _joined_rows(sale_id, batch))
        self._count.run(connection, _counted(sale_id, batch))
        self._record(connection, [_event(sale_id, batch)])


class _Postgres:
    def __init__(self) -> None:
        dialect = "postgresql"
        change, given = update_places(dialect), rows_parameter(dialect, MERGED)
        join = insert(places).from_select([c.name for c in MERGED], select(*given.c))
        record = _count.add_cte(insert(events).values({c.name: bindparam(c.name) for c in EVENT}).cte("told"))
        self._load = prepared(dialect, _load_statement())
        self._find = prepared(dialect, find_places(dialect))
        self._change = prepared(dialect, change)
        self._record = prepared(dialect, record)
        self._join_and_record = prepared(dialect, record.add_cte(join.cte("joined")))
        self._change_and_record = prepared(dialect, record.add_cte(change.cte("changed")))

    def load(self, connection: Connection, sale_id: str, buyers: str, clock: Clock) -> Loaded | None:
        given = {"of_sale": sale_id, "rows": buyers, "now": clock.known_now_ms()}
        row = next(iter(self._load.all(connection, given)), None)
        if row is None:
            return None
        found = places_from(row.found) if row.is_as_seen else _found(connection, self._find, buyers)
        return Loaded(room_in(row), found, row.now, row.is_merging)

    def store(self, connection: Connection, sale_id: str, batch: RoomBatch) -> None:
        """A single statement cannot end a place and create another one for the same buyer: the order of its parts is
        undefined, and for a moment there might be two."""
        event = dict(zip((c.name for c in EVENT), _event(sale_id, batch), strict=True))
        counted = _counted(sale_id, batch) | event
        if batch.changed and batch.joined:
            self._change.run(connection, {"rows": _changed_rows(sale_id, batch)})
        if batch.joined:
            self._join_and_record.run(connection, {**counted, "rows": encode_rows(_joined_rows(sale_id, batch))})
        elif batch.changed:
            self._change_and_record.run(connection, {**counted, "rows": _changed_rows(sale_id, batch)})
        else:
            self._record.run(connection, counted)


def _load_statement() -> Select[Any]:
    room = locked_room()
    found = places_as_json(find_places("postgresql").subquery("found")).label("found")
    return select(room, has_arrivals(room.c.now).label("is_merging"), found)


def has_arrivals(now: ColumnElement[int]) -> Exists:
    """Whether there are staged arrivals that must not be overtaken."""
    return exists().where(arrivals.c.sale_id == bindparam("of_sale"), arrivals.c.arrived_at < now - MAY_OVERTAKE_MS)


def locked_room() -> Subquery:
    """On PostgreSQL: the room, the time (`:now`, if that is given), and whether it is still as this statement saw it.

    The lock is taken in a subquery, because only expressions outside of it are evaluated after the lock is granted.
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


def last_served_place(connection: Connection, sale_id: str) -> int | None:
    """The last place that bought, from 0."""
    used = select(places.c.place).where(places.c.sale_id == sale_id, places.c.place.is_not(None))
    last = used.where(places.c.used_at.is_not(None)).order_by(places.c.place.desc()).limit(1)
    return connection.execute(last).scalar_one_or_none()


def find_place(connection: Connection, sale_id: str, buyer_id: str) -> Place | None:
    """The buyer's current place."""
    theirs = (places.c.sale_id == sale_id, places.c.buyer_id == buyer_id, places.c.ended_at.is_(None))
    row = connection.execute(select(places).where(*theirs)).one_or_none()
    return None if row is None else Place(*(getattr(row, name) for name in Place.__struct_fields__))


def update_places(dialect_name: str) -> Update:
    """Each row names its sale. With the sale as a single parameter, SQLite scans the whole line and reads all given
    rows again for every place in it, which took a minute with fifty thousand people in line."""
    given = rows_parameter(dialect_name, _CHANGED)
    same = (places.c.sale_id == given.c.sale_id, places.c.arrival == given.c.arrival)
    return update(places).where(*same).values({c.name: given.c[c.name] for c in _CHANGED[2:]})


def _leaves_of(connection: Connection, room: RoomState, buyers: Collection[str]) -> dict[str, int]:
    """How often each of them left, read under the room's lock. In most rooms nobody ever left."""
    if not room.leaves or not buyers:
        return {}
    theirs = (places.c.sale_id == room.sale_id, places.c.buyer_id.in_(buyers), was_left)
    found = select(places.c.buyer_id, func.count().label("leaves")).where(*theirs).group_by(places.c.buyer_id)
    return {row.buyer_id: row.leaves for row in connection.execute(found)}


def _used_tickets(connection: Connection, sale_id: str, asks: Sequence[RoomAsk]) -> frozenset[str]:
    """Tickets of ended places, for buyers who present a provisional ticket."""
    buyers = {ask.buyer_id for ask in asks if isinstance(ask, Join) and ask.once}
    if not buyers:
        return frozenset()
    given = rows_parameter(connection.dialect.name, [places.c.buyer_id])
    ended = (places.c.sale_id == sale_id, places.c.ended_at.is_not(None), places.c.buyer_id.in_(select(*given.c)))
    rows = encode_rows((buyer_id,) for buyer_id in buyers)
    return frozenset(connection.execute(select(places.c.ticket_id).where(*ended), {"rows": rows}).scalars())


def room_in(row: Row[*tuple[Any, ...]]) -> RoomState:
    return RoomState(**{c.name: getattr(row, c.name) for c in ROOM})


def _found(connection: Connection, find: Prepared, buyers: str) -> list[Place]:
    names = Place.__struct_fields__
    return [Place(*(getattr(row, name) for name in names)) for row in find.all(connection, {"rows": buyers})]


def _changed_rows(sale_id: str, batch: RoomBatch) -> str:
    return encode_rows(_changed_row(sale_id, place) for place in batch.changed.values())


def _changed_row(sale_id: str, p: Place) -> tuple[object, ...]:
    return (sale_id, p.arrival, p.place, p.stale_at, p.pass_until, p.used_at, p.ended_at, p.left_place)


def _joined_rows(sale_id: str, batch: RoomBatch) -> list[tuple[object, ...]]:
    return [(sale_id, p.arrival, p.buyer_id, p.ticket_id, p.joined_at, p.arrived_at, p.staged_at) for p in batch.joined]


def _event(sale_id: str, batch: RoomBatch) -> tuple[object, ...]:
    """The batch's effects, with the counts after it."""
    counted = {name: getattr(batch.room, name) + more for name, more in batch.counted.items() if more}
    room = {name: count for name, count in counted.items() if name not in FOR_ADVANCER}
    facts: dict[str, object] = {"rooms": [{"sale_id": sale_id, **room}]}
    if batch.joined:
        # Lists of columns, because very many small tuples would keep the garbage collector busy.
        new = batch.joined
        facts["joined"] = [p.buyer_id for p in new], [p.ticket_id for p in new], [p.arrived_at for p in new]
        if any(p.staged_at for p in new):
            facts["staged"] = [p.staged_at for p in new]
    if batch.changed:
        facts["changed"] = [_changed_row(sale_id, place)[1:] for place in batch.changed.values()]
    return (stream_of(sale_id), CHANGED, batch.now, sale_id, encode_facts(facts))


def _counted(sale_id: str, batch: RoomBatch) -> dict[str, object]:
    return {"of_sale": sale_id} | {f"more_{name}": count for name, count in batch.counted.items()}
