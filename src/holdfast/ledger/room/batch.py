"""Applies a batch of requests to a room: the rules, without I/O.

Counting. Each pass is counted once, as used or as released (it expires, or its holder leaves). Releases are counted by
the line advancer, for passes that expired up to `counted_at`, or here if that happens first. The same holds for passes
that become stale. If a pass is used after the line advancer counted it as released, the count is corrected.
"""

from collections.abc import Collection, Mapping

from holdfast.domain.room.pace import FRESH_PART
from holdfast.domain.room.room import (
    REJOINS_MAX,
    Admit,
    Join,
    Leave,
    Place,
    RoomAsk,
    RoomState,
    Stand,
    Standing,
    Use,
)

COUNTED = (
    "joined", "passes_given", "answered", "passes_used", "stale_used", "units_taken", "passes_lapsed", "passes_stale",
    "left", "leaves",
)  # fmt: skip


class RoomBatch:
    """Processes requests one after the other from the loaded rows, and collects the writes."""

    def __init__(
        self,
        room: RoomState,
        found: dict[str, Place],
        now: int,
        leaves: Mapping[str, int],
        *,
        is_merging: bool = False,
        used_tickets: Collection[str] = (),
    ) -> None:
        """`leaves`: how often each buyer without a place has left. `is_merging`: staged arrivals come first.
        `used_tickets`: tickets of ended places, for buyers who present a provisional ticket."""
        self.room, self._found, self.now = room, found, now
        self._leaves = dict(leaves)
        self._is_merging, self._used_tickets = is_merging, used_tickets
        self.joined: list[Place] = []
        self.changed: dict[int, Place] = {}
        self.counted = dict.fromkeys(COUNTED, 0)

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
        waiting = self.room.waiting + self.counted["joined"] - self.counted["left"]
        return Stand(standing, place, self.room.serving, waiting)

    def _join(self, ask: Join, place: Place | None) -> Stand:
        if place is not None and not self._is_over(place):
            return self._stand(Standing.WAITING if place.place is None else Standing.ADMITTED, place)
        if ask.once and place is not None and place.ticket_id == ask.ticket_id:
            return self._stand(Standing.OVER, place)
        if ask.once and ask.ticket_id in self._used_tickets:
            return self._stand(Standing.USED)
        if ask.only_again:
            return self._stand(Standing.GONE)
        if self._is_merging and ask.staged_at is None:
            return self._stand(Standing.MERGING)
        if place is not None:
            self._end(place)
        elif self._leaves.get(ask.buyer_id, 0) > REJOINS_MAX:
            return self._stand(Standing.LEFT_TOO_OFTEN)
        arrival = self.room.joined + self.counted["joined"]
        place = self._found[ask.buyer_id] = Place(
            arrival,
            ask.buyer_id,
            ask.ticket_id,
            self.now,
            arrived_at=self.now if ask.arrived_at is None else min(ask.arrived_at, self.now),
            staged_at=ask.staged_at,
        )
        self.joined.append(place)
        self.counted["joined"] += 1
        return self._stand(Standing.WAITING, place)

    def _admit(self, ask: Admit, place: Place | None) -> Stand:
        if place is None:
            return self._stand(Standing.GONE)
        if place.place is not None:
            return self._stand(Standing.OVER if self._is_over(place) else Standing.ADMITTED, place)
        turn = self.room.place_of(place.arrival)
        if turn >= self.room.serving:
            return self._stand(Standing.WAITING, place)
        place.place = turn
        place.stale_at = self.now + int(ask.pass_ms * FRESH_PART)
        place.pass_until = self.now + ask.pass_ms
        self.changed[place.arrival] = place
        self.counted["passes_given"] += 1
        self.counted["answered"] += turn >= self.room.called_to
        return self._stand(Standing.ADMITTED, place)

    def _use(self, ask: Use, place: Place | None) -> Stand:
        """If a buyer buys again with the same pass, the units still count."""
        self.counted["units_taken"] += ask.units
        if place is None or place.stale_at is None or place.pass_until is None or place.used_at is not None:
            return self._stand(Standing.GONE)
        place.used_at = self.now
        self.changed[place.arrival] = place
        self.counted["passes_used"] += 1
        self.counted["stale_used"] += place.stale_at <= self.room.counted_at
        self.counted["passes_lapsed"] -= place.pass_until <= self.room.counted_at
        return self._stand(Standing.ADMITTED, place)

    def _leave(self, place: Place | None) -> Stand:
        """The result has the place if it was left now, and none if it was left before."""
        if place is None:
            return self._stand(Standing.GONE)
        turn = self.room.turn_of(place.arrival) if place.place is None else None
        if turn is not None and turn >= self.room.serving:
            place.left_place = turn
            self.counted["left"] += 1
        self.counted["leaves"] += 1
        self._leaves[place.buyer_id] = self._leaves.get(place.buyer_id, 0) + 1
        self._end(place)
        del self._found[place.buyer_id]
        return self._stand(Standing.GONE, place)

    def _is_over(self, place: Place) -> bool:
        return place.pass_until is not None and place.pass_until <= self.now

    def _end(self, place: Place) -> None:
        place.ended_at = self.now
        self.changed[place.arrival] = place
        if place.stale_at is None or place.pass_until is None or place.used_at is not None:
            return
        if place.pass_until > self.room.counted_at:
            self.counted["passes_lapsed"] += 1
            self.counted["passes_stale"] += place.stale_at > self.room.counted_at


def _is_of(place: Place | None, ask: Admit | Leave) -> bool:
    return place is not None and (place.arrival, place.ticket_id) == (ask.arrival, ask.ticket_id)
