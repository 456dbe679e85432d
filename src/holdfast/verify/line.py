"""The line: everyone has one place, in the order of arrival or of the draw, and nobody was admitted too early.

Places are deleted only if the operator set a retention, long after the sale. An event records how many, so the counts
of the line still match. Until then the result of a lottery is recomputed from the seed, the length and the digest of
the list, as anyone can do (docs/LOTTERY.md).
"""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, func, or_, select

from holdfast.domain.room.lottery import ListDigest, beacon_of, seed_hash
from holdfast.domain.room.room import RoomState
from holdfast.ledger.room.rooms import list_entries, room_from_row, with_leavers
from holdfast.ledger.sales.pruning import HISTORY_PRUNED, PRUNED, PrunedPlaces
from holdfast.ledger.stock.pruning import pruning_digest
from holdfast.ledger.tables.room import places, rooms
from holdfast.ledger.tables.stock import events
from holdfast.verify.check import Check, Computed
from holdfast.verify.stock import kept_hashes

# Time synchronisation may set the engine's clock back by this much. Arrivals within it have no defined order.
CLOCK_MS = 1_000
AT_ONCE = 5_000
# Requests that reach different processes within this time have no defined order: each waits in its process's queue, for
# two seconds at most, and then for the lock of the room.
ARRIVAL_SKEW_MS = 3_000

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
    "The arrival numbers of every line start at 0 and have no gaps.",
    rooms,
    select(rooms.c.sale_id, rooms.c.joined, func.coalesce(_counted.c.places, 0).label("places"), _counted.c.last)
    .outerjoin(_counted, _counted.c.sale_id == rooms.c.sale_id)
    .where(
        or_(
            rooms.c.joined != func.coalesce(_counted.c.places, 0) + rooms.c.pruned,
            rooms.c.joined != func.coalesce(_counted.c.last + 1, rooms.c.pruned),
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
    "Nobody has a place ahead of someone who arrived earlier.",
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
    "Everyone who has or had a pass was called: no pass belongs to a place that was not called yet.",
    places,
    select(places.c.sale_id, places.c.arrival, places.c.place, rooms.c.serving)
    .join(rooms, _of_room)
    .where(_is_given, or_(places.c.place >= rooms.c.serving, rooms.c.serving > rooms.c.joined)),
)

_served_once = Check(
    "places_served_once",
    "No two people were called for the same place of a line.",
    places,
    select(places.c.sale_id, places.c.place, func.count().label("people"))
    .where(_is_given)
    .group_by(places.c.sale_id, places.c.place)
    .having(func.count() > 1),
)

_is_late = or_(rooms.c.entrants.is_(None), places.c.arrival >= rooms.c.entrants + rooms.c.unlisted)
_as_arrived = Check(
    "places_as_arrived",
    "People who were not in a draw were called in order of arrival, after those who were.",
    places,
    select(places.c.sale_id, places.c.arrival, places.c.place, rooms.c.entrants)
    .join(rooms, _of_room)
    .where(_is_given, _is_late, places.c.place != places.c.arrival - rooms.c.unlisted),
)

_passes_counted = Check(
    "passes_counted",
    "The numbers of issued and used passes match the counts of the line.",
    rooms,
    select(rooms.c.sale_id, rooms.c.passes_given, _counted.c.passes, rooms.c.passes_used, _counted.c.used)
    .outerjoin(_counted, _counted.c.sale_id == rooms.c.sale_id)
    .where(
        rooms.c.pruned == 0,
        or_(
            rooms.c.passes_given != func.coalesce(_counted.c.passes, 0),
            rooms.c.passes_used != func.coalesce(_counted.c.used, 0),
        ),
    ),
)


def _draws(connection: Connection) -> list[RoomState]:
    is_drawn = (rooms.c.digest.is_not(None), rooms.c.entrants.is_not(None), rooms.c.pruned == 0)
    found = connection.execute(select(rooms).where(*is_drawn).order_by(rooms.c.sale_id)).all()
    return [with_leavers(connection, room) for row in found if (room := room_from_row(row)).is_drawn]


def _wrong_draws(connection: Connection) -> Iterator[dict[str, Any]]:
    for room in _draws(connection):
        assert room.entrants is not None
        digest = ListDigest()
        for first in range(0, room.entrants, AT_ONCE):
            digest.add(list_entries(connection, room, first, min(first + AT_ONCE, room.entrants)))
        if seed_hash(bytes.fromhex(room.seed)) != room.seed_hash:
            yield {"sale_id": room.sale_id, "wrong": "seed_hash"}
        elif digest.hexdigest() != room.digest:
            yield {"sale_id": room.sale_id, "wrong": "digest"}
        elif room.beacon is not None and room.beacon != beacon_of(digest.hexdigest(), room.beacon_value or ""):
            yield {"sale_id": room.sale_id, "wrong": "beacon"}


def _wrong_places(connection: Connection) -> Iterator[dict[str, Any]]:
    for room in _draws(connection):
        assert room.entrants is not None
        given = select(places.c.arrival, places.c.place).where(
            places.c.sale_id == room.sale_id, _is_given, places.c.arrival < room.entrants + room.unlisted
        )
        for row in connection.execute(given.order_by(places.c.arrival)):
            drawn = room.place_of(row.arrival)
            if row.place != drawn:
                yield {"sale_id": room.sale_id, "arrival": row.arrival, "place": row.place, "drawn": drawn}


def _wrongly_pruned(connection: Connection) -> Iterator[dict[str, Any]]:
    """For each partly deleted line: its places, passes and used passes, according to events and remaining rows."""
    found: dict[str, list[int]] = {}
    told = select(events.c.seq, events.c.subject).where(events.c.type == PRUNED).order_by(events.c.seq)
    for seq, subject in connection.execute(told):
        pruned = PrunedPlaces.parse(subject or "")
        if pruned is None or pruned.first != found.setdefault(pruned.sale_id, [0, 0, 0])[0]:
            yield {"seq": seq, "pruned": subject}
        else:
            counts = zip(found[pruned.sale_id], (pruned.count, pruned.passes, pruned.used), strict=True)
            found[pruned.sale_id] = [before + more for before, more in counts]
    passes, used = (func.coalesce(_counted.c[name], 0) for name in ("passes", "used"))
    recorded = (
        select(rooms.c.sale_id, rooms.c.pruned, rooms.c.passes_given - passes, rooms.c.passes_used - used)
        .outerjoin(_counted, _counted.c.sale_id == rooms.c.sale_id)
        .where(or_(rooms.c.pruned != 0, rooms.c.sale_id.in_(found)))
    )
    for sale_id, *by_room in connection.execute(recorded):
        if by_room != found.get(sale_id):
            yield {"sale_id": sale_id, "by_room": by_room, "by_events": found.get(sale_id)}
    told = select(events.c.seq, events.c.quantity, events.c.subject).where(events.c.type == HISTORY_PRUNED)
    for row in connection.execute(told).all():
        hashes = kept_hashes(connection, row.seq)
        if (len(hashes), pruning_digest("", hashes)) != (row.quantity, row.subject):
            yield {"seq": row.seq, "pruned": row.subject}


def _wrongly_merged(connection: Connection) -> Iterator[dict[str, Any]]:
    """Places behind a buyer who arrived later by more than the skew, if the earlier arrival was recorded in time, or if
    the ledger knew of it when the later one got a place."""
    columns = (places.c.sale_id, places.c.arrival, places.c.arrived_at, places.c.joined_at, places.c.staged_at)
    wanted = select(*columns).where(places.c.arrived_at.is_not(None)).order_by(places.c.sale_id, places.c.arrival)
    for sale_id, rows in groupby(connection.execute(wanted.execution_options(yield_per=AT_ONCE)), itemgetter(0)):
        before = Predecessors()
        for row in rows:
            recorded_at = row.joined_at if row.staged_at is None else row.staged_at
            is_timely = recorded_at - row.arrived_at <= ARRIVAL_SKEW_MS
            latest = before.latest() if is_timely else before.latest(recorded_at)
            if latest is not None and latest > row.arrived_at + ARRIVAL_SKEW_MS:
                yield {"sale_id": sale_id, "arrival": row.arrival, "arrived_at": row.arrived_at, "behind": latest}
            before.add(row.joined_at, row.arrived_at)


class Predecessors:
    """The latest arrival among the places ahead: among all of them, or among those joined after a given time. Keeps
    only places that arrived later than all that follow them."""

    def __init__(self) -> None:
        self._joined_at: list[int] = []
        self._arrived_at: list[int] = []

    def add(self, joined_at: int, arrived_at: int) -> None:
        while self._arrived_at and self._arrived_at[-1] <= arrived_at:
            self._arrived_at.pop()
            self._joined_at.pop()
        self._arrived_at.append(arrived_at)
        self._joined_at.append(joined_at)

    def latest(self, since: int | None = None) -> int | None:
        first = 0 if since is None else bisect_right(self._joined_at, since)
        return self._arrived_at[first] if first < len(self._arrived_at) else None


CHECKS: tuple[Check | Computed, ...] = (
    _numbered,
    _by_arrival,
    Computed("places_by_stamp", "Arrivals were served in the order of their stamps.", places, _wrongly_merged),
    _one_each,
    _no_jump,
    _served_once,
    _as_arrived,
    _passes_counted,
    Computed("pruned_places_add_up", "Lines match what was deleted of them and what is left.", rooms, _wrongly_pruned),
    Computed("draws_published", "Seeds and lists of lotteries match their published hashes.", rooms, _wrong_draws),
    Computed("places_as_drawn", "People in a draw were called in the drawn order.", places, _wrong_places),
)
