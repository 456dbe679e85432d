"""Queries on rooms."""

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, Row, and_, bindparam, delete, func, or_, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.domain.room.lottery import SEED_BYTES, Leavers, entry_of, seed_hash
from holdfast.domain.room.room import AdvancerState, RoomState
from holdfast.domain.sale.drop import line_of
from holdfast.domain.sale.sale import RoomMode, Sale, SaleState
from holdfast.ledger.engine.facts import record, row_facts
from holdfast.ledger.engine.rows import encode_rows, rows_parameter
from holdfast.ledger.tables.room import FOR_ADVANCER, gate_slowness, places, rooms
from holdfast.ledger.tables.rows import drop_from_row, sale_from_row
from holdfast.ledger.tables.sales import drops, sales
from holdfast.runtime.sealing import Sealer

CHANGED = "room.changed"
RECORDED = [c for c in rooms.c if c.name not in FOR_ADVANCER]
LeftPlaces = Sequence[tuple[int, int]]
"""Arrival numbers of buyers who left, each with the place that is skipped."""


def stream_of(sale_id: str) -> str:
    """The value that a room's events have instead of a SKU."""
    return f"room:{sale_id}"


class SaleAndRoom(Struct, frozen=True):
    """A waiting line: its rules, its room, and what is sold to those in it: one sale, or the sales of a drop."""

    sale: Sale
    room: RoomState
    sales: Sequence[Sale]

    @property
    def sku_ids(self) -> list[str]:
        return [sale.sku_id for sale in self.sales]


def make_room(connection: Connection, sale_id: str, now: int, sealer: Sealer | None = None) -> None:
    """Create the room if it does not exist. Every room of a sale has a seed from the start, so that its hash is known
    before anyone joins. Without a sealer there is no seed and no draw."""
    values: dict[str, object] = {"sale_id": sale_id, "seed": "", "seed_hash": "", "created_at": now}
    if sealer is not None:
        seed = secrets.token_bytes(SEED_BYTES)
        values |= {"seed": sealer.seal(seed, sale_id), "seed_hash": seed_hash(seed)}
    insert = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    made = insert(rooms).values(**values).on_conflict_do_nothing().returning(*RECORDED)
    row = connection.execute(made).one_or_none()
    if row is not None:
        _record(connection, sale_id, now, {"rooms": [row_facts(rooms, row)]})


_COLUMNS = [name for name in RoomState.__struct_fields__ if name in rooms.c]
# Buyers who left before a list was closed, by the seed's hash, which differs for every room, and the closing time: a
# transaction that closed the list may have been rolled back, and others left before it was closed again.
_LEAVERS_MAX = 64
_leavers: dict[tuple[str, int | None], Leavers] = {}
LEFT_BEFORE_CLOSING = -1
LEFT_AT_ONCE = 10_000


def room_from_row(row: Row[Any]) -> RoomState:
    values = {name: row._mapping[name] for name in _COLUMNS}  # noqa: SLF001 - the documented way
    advancer_state = values["advancer_state"]
    return RoomState(
        **values | {"advancer_state": None if advancer_state is None else AdvancerState.from_json(advancer_state)}
    )


def find_room(connection: Connection, sale_id: str) -> RoomState | None:
    row = connection.execute(_ROOM, {"of_sale": sale_id}).one_or_none()
    return None if row is None else with_leavers(connection, room_from_row(row))


def lock_room(connection: Connection, sale_id: str) -> RoomState | None:
    row = connection.execute(_LOCKED_ROOM, {"of_sale": sale_id}).one_or_none()
    return None if row is None else with_leavers(connection, room_from_row(row))


# Built once, like every statement here that runs at each step of a line.
_OF_SALE = rooms.c.sale_id == bindparam("of_sale")
_ROOM = select(rooms).where(_OF_SALE)
_LOCKED_ROOM = _ROOM.with_for_update()
_RECORDED_NOW = select(*RECORDED).where(_OF_SALE)


# Left, rather than replaced by another place after the pass expired.
was_left = and_(
    places.c.ended_at.is_not(None), or_(places.c.pass_until.is_(None), places.c.pass_until > places.c.ended_at)
)


def count_leaves(connection: Connection, sale_id: str) -> int | None:
    """How many buyers have left this room so far."""
    return connection.execute(select(rooms.c.leaves).where(rooms.c.sale_id == sale_id)).scalar_one_or_none()


def returned_passes(connection: Connection, sale_id: str, now: int) -> frozenset[str]:
    """The tickets of people who left with an unexpired pass."""
    is_valid = (places.c.place.is_not(None), places.c.pass_until > now, was_left)
    found = select(places.c.ticket_id).where(places.c.sale_id == sale_id, *is_valid)
    return frozenset(connection.execute(found).scalars())


def with_leavers(connection: Connection, room: RoomState) -> RoomState:
    """For computing the places of a draw. Read once, because nobody can leave a closed list."""
    if not room.unlisted:
        return room
    key = (room.seed_hash, room.opened_at)
    found = _leavers.get(key)
    if found is None:
        of_room = (places.c.sale_id == room.sale_id, places.c.left_place == LEFT_BEFORE_CLOSING)
        arrivals = select(places.c.arrival).where(*of_room).order_by(places.c.arrival)
        if len(_leavers) >= _LEAVERS_MAX:
            _leavers.clear()
        found = _leavers[key] = Leavers(list(connection.execute(arrivals).scalars()))
    return replace(room, leavers=found)


def close_list(connection: Connection, sale_id: str) -> LeftPlaces:
    """Take everyone who has left off a lottery's list."""
    left = (places.c.sale_id == sale_id, places.c.left_place.is_not(None))
    taken_off = update(places).where(*left).values(left_place=LEFT_BEFORE_CLOSING).returning(places.c.arrival)
    return [(arrival, LEFT_BEFORE_CLOSING) for arrival in sorted(connection.execute(taken_off).scalars())]


def skip_undrawn_leavers(connection: Connection, room: RoomState) -> LeftPlaces:
    """Buyers who left between the closing of the list and the draw are on the list, and their places must be
    skipped."""
    undrawn = (places.c.ended_at.is_not(None), places.c.place.is_(None), places.c.left_place.is_(None))
    found = (
        connection.execute(select(places.c.arrival).where(places.c.sale_id == room.sale_id, *undrawn)).scalars().all()
    )
    given = rows_parameter(connection.dialect.name, [places.c.sale_id, places.c.arrival, places.c.left_place])
    same = (places.c.sale_id == given.c.sale_id, places.c.arrival == given.c.arrival)
    left = [(arrival, room.place_of(arrival)) for arrival in found]
    rows = encode_rows((room.sale_id, *each) for each in left)
    connection.execute(update(places).where(*same).values(left_place=given.c.left_place), {"rows": rows})
    return left


def skipped_from(connection: Connection, room: RoomState) -> Iterator[int]:
    """The places to be skipped, from the cursor on, read in portions."""
    first = room.serving
    while portion := left_places(connection, replace(room, serving=first)):
        yield from portion
        first = portion[-1] + 1


def left_places(connection: Connection, room: RoomState) -> list[int]:
    """The next places to be skipped, up to a limit."""
    left = (places.c.sale_id == room.sale_id, places.c.left_place >= room.serving)
    wanted = select(places.c.left_place).where(*left).order_by(places.c.left_place).limit(LEFT_AT_ONCE)
    return list(connection.execute(wanted).scalars())


def update_room(
    connection: Connection, sale_id: str, now: int, changes: Mapping[str, object], left: LeftPlaces = ()
) -> None:
    """Under the lock of the room. `left`: what was written to places in this transaction."""
    before = connection.execute(_RECORDED_NOW, {"of_sale": sale_id}).one()._mapping  # noqa: SLF001 - as documented
    connection.execute(update(rooms).where(rooms.c.sale_id == sale_id).values(changes))
    new = {name: value for name, value in changes.items() if name in before and before[name] != value}
    if new or left:
        _record(connection, sale_id, now, {"rooms": [{"sale_id": sale_id, **new}], "left": left})


def _record(connection: Connection, sale_id: str, now: int, facts: Mapping[str, object]) -> None:
    record(connection, stream_of(sale_id), CHANGED, now, facts, subject=sale_id)


def live_rooms(connection: Connection) -> list[SaleAndRoom]:
    """The rooms of sales that are not closed, and of drops that have such a sale."""
    lines = [*_lines_of_sales(connection), *_lines_of_drops(connection)]
    sold_to = {line.sale_id: (line, sales_) for line, sales_ in lines if line.room.mode is not RoomMode.OFF}
    found = connection.execute(select(rooms).where(rooms.c.sale_id.in_(sold_to))).all() if sold_to else ()
    return [
        SaleAndRoom(line, with_leavers(connection, room_from_row(row)), sales_)
        for row in found
        for line, sales_ in [sold_to[row.sale_id]]
    ]


def _lines_of_sales(connection: Connection) -> list[tuple[Sale, list[Sale]]]:
    return [(sale, [sale]) for sale in map(sale_from_row, connection.execute(_LIVE_SALES))]


def _lines_of_drops(connection: Connection) -> list[tuple[Sale, list[Sale]]]:
    found = [drop_from_row(row) for row in connection.execute(_LIVE_DROPS)]
    if not found:
        return []
    theirs: dict[str, list[Sale]] = {drop.drop_id: [] for drop in found}
    for row in connection.execute(select(sales).where(sales.c.drop_id.in_(theirs))):
        theirs[row.drop_id].append(sale_from_row(row))
    return [(line_of(drop, theirs[drop.drop_id]), _loaded(theirs[drop.drop_id])) for drop in found]


def _loaded(of_drop: Sequence[Sale]) -> list[Sale]:
    """Sales whose pools exist and have not moved to a later sale."""
    return [sale for sale in of_drop if sale.state is SaleState.READY]


_IS_LIVE = sales.c.state != SaleState.CLOSED
_IN_ROOM = select(sales).join(rooms, sales.c.sale_id == rooms.c.sale_id)
_LIVE_SALES = _IN_ROOM.where(_IS_LIVE, sales.c.drop_id.is_(None))
_LIVE_DROPS = select(drops).where(
    drops.c.drop_id.in_(select(sales.c.drop_id).where(_IS_LIVE, sales.c.drop_id.is_not(None)))
)


def list_entries(connection: Connection, room: RoomState, first: int, last: int) -> list[str]:
    """Entries of a closed list, in arrival order, from one number up to another."""
    arrival_of = room.leavers.arrival_of
    is_listed = (places.c.arrival >= arrival_of(first), places.c.arrival < arrival_of(last), _IS_LISTED)
    wanted = (
        select(places.c.buyer_id, places.c.ticket_id, places.c.entry)
        .where(places.c.sale_id == room.sale_id, *is_listed)
        .order_by(places.c.arrival)
    )
    return [row.entry or entry_of(room.sale_id, row.buyer_id, row.ticket_id) for row in connection.execute(wanted)]


_IS_LISTED = func.coalesce(places.c.left_place, 0) != LEFT_BEFORE_CLOSING


def note_slowness(connection: Connection, process: str, slowness: Sequence[tuple[str, float]], now: int) -> None:
    insert = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    statement = insert(gate_slowness)
    statement = statement.on_conflict_do_update(
        index_elements=[gate_slowness.c.sku_id, gate_slowness.c.process],
        set_={"slowness_ms": statement.excluded.slowness_ms, "at": statement.excluded.at},
    )
    rows = [{"sku_id": sku_id, "process": process, "slowness_ms": int(ms), "at": now} for sku_id, ms in slowness]
    connection.execute(statement, rows)


def prune_slowness(connection: Connection, older_than: int, *, limit: int) -> int:
    """Delete up to `limit` measurements of processes that ended. Each leaves a row for every pool it served."""
    key = (gate_slowness.c.sku_id, gate_slowness.c.process)
    old = select(*key).where(gate_slowness.c.at < older_than).limit(limit)
    return connection.execute(delete(gate_slowness).where(tuple_(*key).in_(old))).rowcount


def slowness_of(connection: Connection, sku_ids: Collection[str], since: int) -> float:
    """The highest value that any process measures."""
    of_pool = (gate_slowness.c.sku_id.in_(sku_ids), gate_slowness.c.at >= since)
    return float(connection.execute(select(func.max(gate_slowness.c.slowness_ms)).where(*of_pool)).scalar() or 0)
