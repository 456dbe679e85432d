"""A buyer's story in the waiting rooms: joined, called, pass, used, expired, left. Derived, not stored."""

import json
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, and_, func, select, union_all

from holdfast.audit.search import Question
from holdfast.domain.room.pace import FRESH_PART
from holdfast.domain.room.room import RoomState
from holdfast.ledger.room.queries import last_served_place
from holdfast.ledger.room.rooms import CHANGED, find_room, stream_of
from holdfast.ledger.sales.sales import find_sale
from holdfast.ledger.tables.room import arrivals, places
from holdfast.ledger.tables.sales import sales
from holdfast.ledger.tables.stock import events, pools

# The latest places. Finding a call requires reading the events since the buyer joined.
PLACES_MAX = 20
CALLS_MAX = 50_000


class Standing(Struct, frozen=True, kw_only=True):
    """A place in line, and its outcome. Places count from 0; None: the lottery has not been drawn yet."""

    sale_id: str
    sku_id: str
    place: int | None
    joined_at: int
    ahead: int = 0
    called_at: int | None = None
    was_called: bool = False
    pass_at: int | None = None
    pass_until: int | None = None
    is_pass_over: bool = False
    used_at: int | None = None
    left_at: int | None = None
    # Current state of the sale: whether every unit is sold or the sale has ended, and the last place that bought.
    is_over: bool = False
    is_sold_out: bool = False
    last_served: int | None = None


class RoomStory(Struct, frozen=True):
    standings: list[Standing]
    # Sales whose room has staged the arrival, but given no place for it yet.
    arriving: list[tuple[str, str, int]]


def read_rooms(connection: Connection, question: Question, now: int) -> RoomStory:
    rows = connection.execute(_of_buyer(question)).all()
    standings = [_standing(connection, row, now) for row in sorted(rows, key=lambda row: row.joined_at)[-PLACES_MAX:]]
    waiting = select(arrivals.c.sale_id, sales.c.sku_id, arrivals.c.arrived_at).join(
        sales, sales.c.sale_id == arrivals.c.sale_id
    )
    waiting = waiting.where(arrivals.c.buyer_id == question.owner_id, *_wanted(question))
    return RoomStory(standings, [(*row,) for row in connection.execute(waiting)])


def _of_buyer(question: Question) -> Any:
    """Two queries, because one index has the places that ended, and another the rest."""
    theirs = select(places, sales.c.sku_id).join_from(
        sales, places, and_(places.c.sale_id == sales.c.sale_id, places.c.buyer_id == question.owner_id)
    )
    if question.until_ms is not None:
        theirs = theirs.where(places.c.joined_at < question.until_ms)
    theirs = theirs.where(*_wanted(question))
    return union_all(theirs.where(places.c.ended_at.is_(None)), theirs.where(places.c.ended_at.is_not(None)))


def _wanted(question: Question) -> list[Any]:
    wanted = [] if question.sale_id is None else [sales.c.sale_id == question.sale_id]
    return wanted if question.sku_id is None else [*wanted, sales.c.sku_id == question.sku_id]


def _standing(connection: Connection, row: Row[Any], now: int) -> Standing:
    room, sale = find_room(connection, row.sale_id), find_sale(connection, row.sale_id)
    assert room is not None, "a place is in a room"
    assert sale is not None, "a room is of a sale"
    place = row.place if row.place is not None else _turn(room, row)
    was_called = place is not None and place < room.serving and row.left_place is None
    is_sold_out = _is_sold_out(connection, row.sku_id)
    over_at = row.pass_until if row.ended_at is None or row.pass_until is None else min(row.pass_until, row.ended_at)
    is_left = row.ended_at is not None and (row.pass_until is None or row.pass_until > row.ended_at)
    return Standing(
        sale_id=row.sale_id,
        sku_id=row.sku_id,
        place=place,
        joined_at=row.joined_at if row.arrived_at is None else row.arrived_at,
        ahead=0 if place is None else room.ahead_of(place),
        called_at=_called_at(connection, row, place) if was_called else None,
        was_called=was_called,
        pass_at=_pass_at(row),
        pass_until=row.pass_until,
        is_pass_over=over_at is not None and over_at <= now and not is_left,
        used_at=row.used_at,
        left_at=row.ended_at if is_left else None,
        is_over=is_sold_out or (sale.ends_at is not None and sale.ends_at <= now) or sale.state == "closed",
        is_sold_out=is_sold_out,
        last_served=last_served_place(connection, row.sale_id),
    )


def _turn(room: RoomState, row: Row[Any]) -> int | None:
    if room.mode == "lottery" and not room.is_drawn:
        return None
    return room.turn_of(row.arrival)


def _pass_at(row: Row[Any]) -> int | None:
    """It became stale after `FRESH_PART` of its lifetime."""
    if row.pass_until is None or row.stale_at is None:
        return None
    return int(row.pass_until - round((row.pass_until - row.stale_at) / (1 - FRESH_PART)))


def _called_at(connection: Connection, row: Row[Any], place: int | None) -> int | None:
    """When the line advanced past a place; None if its events were pruned."""
    assert place is not None
    of_room = (events.c.sku_id == stream_of(row.sale_id), events.c.type == CHANGED, events.c.at >= row.joined_at)
    advanced = select(events.c.at, events.c.facts).where(*of_room, events.c.facts.contains('"serving"'))
    for at, facts in connection.execute(advanced.order_by(events.c.seq).limit(CALLS_MAX)):
        rooms = json.loads(facts).get("rooms") or [{}]
        if rooms[0].get("serving", 0) > place:
            return int(at)
    return None


def _is_sold_out(connection: Connection, sku_id: str) -> bool:
    of_it = (pools.c.sku_id == sku_id) | pools.c.sku_id.startswith(f"{sku_id}/", autoescape=True)
    total, sold = connection.execute(select(func.sum(pools.c.total), func.sum(pools.c.sold)).where(of_it)).one()
    return total is not None and sold >= total
