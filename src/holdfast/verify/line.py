"""The line: everyone has one place, in the order in which they came or were drawn, and nobody went in too early.

Places are never removed, so the whole line can be looked at for as long as the ledger is kept. What the lottery drew is
computed again from the seed, the length and the digest of the list, as anyone can (docs/LOTTERY.md).
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, func, or_, select

from holdfast.domain.lottery import Draw, ListDigest, Order, seed_hash
from holdfast.ledger.room_tables import places, rooms
from holdfast.ledger.rooms import list_entries
from holdfast.verify.check import Check, Computed

# How far an engine's clock may be set back by whoever keeps it right; people who came within it say nothing.
CLOCK_MS = 1_000
AT_ONCE = 5_000

_is_given = places.c.place.is_not(None)
_of_room = rooms.c.sale_id == places.c.sale_id

_counted = (
    select(
        places.c.sale_id,
        func.count().label("places"),
        func.max(places.c.arrival).label("last"),
        func.count(places.c.place).label("passes"),
        func.count(places.c.used_at).label("used"),
    )
    .group_by(places.c.sale_id)
    .subquery("counted")
)

_numbered = Check(
    "places_numbered",
    "Arrival numbers of every line go from 0 to the last, without a gap.",
    rooms,
    select(rooms.c.sale_id, rooms.c.joined, func.coalesce(_counted.c.places, 0).label("places"), _counted.c.last)
    .outerjoin(_counted, _counted.c.sale_id == rooms.c.sale_id)
    .where(
        or_(
            rooms.c.joined != func.coalesce(_counted.c.places, 0),
            rooms.c.joined != func.coalesce(_counted.c.last + 1, 0),
        )
    ),
)

_in_turn = select(
    places.c.sale_id,
    places.c.arrival,
    places.c.joined_at,
    func.max(places.c.joined_at).over(partition_by=places.c.sale_id, order_by=places.c.arrival).label("latest"),
).subquery("in_turn")
_by_arrival = Check(
    "places_by_arrival",
    "Nobody has a place before somebody who came earlier.",
    places,
    select(_in_turn).where(_in_turn.c.joined_at < _in_turn.c.latest - CLOCK_MS),
)

_one_each = Check(
    "places_one_each",
    "No buyer has two places in one line at the same time.",
    places,
    select(places.c.buyer_id, places.c.sale_id, func.count().label("places"))
    .where(places.c.ended_at.is_(None))
    .group_by(places.c.sale_id, places.c.buyer_id)
    .having(func.count() > 1),
)

_no_jump = Check(
    "nobody_before_their_turn",
    "Everyone who has or had a pass was called: no place beyond where the line is.",
    places,
    select(places.c.sale_id, places.c.arrival, places.c.place, rooms.c.serving)
    .join(rooms, _of_room)
    .where(_is_given, or_(places.c.place >= rooms.c.serving, rooms.c.serving > rooms.c.joined)),
)

_served_once = Check(
    "places_served_once",
    "No two people were called as the same place of a line.",
    places,
    select(places.c.sale_id, places.c.place, func.count().label("people"))
    .where(_is_given)
    .group_by(places.c.sale_id, places.c.place)
    .having(func.count() > 1),
)

_is_late = or_(rooms.c.entrants.is_(None), places.c.arrival >= rooms.c.entrants)
_as_arrived = Check(
    "places_as_arrived",
    "Whoever took part in no draw was called in the order of arrival, and behind those who did.",
    places,
    select(places.c.sale_id, places.c.arrival, places.c.place, rooms.c.entrants)
    .join(rooms, _of_room)
    .where(_is_given, _is_late, places.c.place != places.c.arrival),
)

_passes_counted = Check(
    "passes_counted",
    "As many passes were given and used as the line counts.",
    rooms,
    select(rooms.c.sale_id, rooms.c.passes_given, _counted.c.passes, rooms.c.passes_used, _counted.c.used)
    .outerjoin(_counted, _counted.c.sale_id == rooms.c.sale_id)
    .where(
        or_(
            rooms.c.passes_given != func.coalesce(_counted.c.passes, 0),
            rooms.c.passes_used != func.coalesce(_counted.c.used, 0),
        )
    ),
)


def _draws(connection: Connection) -> list[Any]:
    is_drawn = (rooms.c.digest.is_not(None), rooms.c.entrants.is_not(None))
    return list(connection.execute(select(rooms).where(*is_drawn).order_by(rooms.c.sale_id)))


def _wrong_draws(connection: Connection) -> Iterator[dict[str, Any]]:
    for room in _draws(connection):
        digest = ListDigest()
        for first in range(0, room.entrants, AT_ONCE):
            digest.add(list_entries(connection, room.sale_id, first, min(first + AT_ONCE, room.entrants)))
        if seed_hash(bytes.fromhex(room.seed)) != room.seed_hash:
            yield {"sale_id": room.sale_id, "wrong": "seed_hash"}
        elif digest.hexdigest() != room.digest:
            yield {"sale_id": room.sale_id, "wrong": "digest"}


def _wrong_places(connection: Connection) -> Iterator[dict[str, Any]]:
    for room in _draws(connection):
        order = Order(Draw(room.sale_id, bytes.fromhex(room.seed), room.entrants, room.digest))
        given = select(places.c.arrival, places.c.place).where(
            places.c.sale_id == room.sale_id, _is_given, places.c.arrival < room.entrants
        )
        for row in connection.execute(given.order_by(places.c.arrival)):
            drawn = order.place_of(row.arrival)
            if row.place != drawn:
                yield {"sale_id": room.sale_id, "arrival": row.arrival, "place": row.place, "drawn": drawn}


CHECKS: tuple[Check | Computed, ...] = (
    _numbered,
    _by_arrival,
    _one_each,
    _no_jump,
    _served_once,
    _as_arrived,
    _passes_counted,
    Computed("draws_published", "Seeds and lists of lotteries are those that were published.", rooms, _wrong_draws),
    Computed("places_as_drawn", "Whoever took part in a draw was called as it was drawn.", places, _wrong_places),
)
