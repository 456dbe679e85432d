"""What a batch of asks does to a room: the rules, pure.

What is counted. A pass is given, and then used, or let go (it lapses, or its holder leaves) and counted as such once:
by the usher when its time is over, up to `reckoned_at`, or here if that happens first. The same for passes that turn
stale. Whoever uses a pass after the usher gave it up is counted back.
"""

from holdfast.domain.pace import FRESH_PART
from holdfast.domain.room import Admit, Join, Leave, Place, RoomAsk, RoomState, Stand, Standing, Use

COUNTED = (
    "joined", "passes_given", "answered", "passes_used", "stale_used", "units_taken", "passes_lapsed", "passes_stale",
)  # fmt: skip


class RoomBatch:
    """Answers asks one after the other from what was loaded, and gathers what is to be written."""

    def __init__(self, room: RoomState, found: dict[str, Place], now: int) -> None:
        self._room, self._found, self._now = room, found, now
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
