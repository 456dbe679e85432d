"""What someone in line is told of how long it takes and of their chances, from how the room stands."""

from holdfast.domain.odds import Basket, Group, Outlook, Seen, eta_of, odds_of
from holdfast.domain.pace import SPEED_WINDOW_MS
from holdfast.domain.room import RoomState
from holdfast.domain.sale import Sale

# Before a draw anyone may get any place: the chance is that of the middles of these parts of the line, on average.
PARTS = 5


def outlook_of(sale: Sale, room: RoomState, place: int | None, now: int) -> Outlook:
    """`place` is from 0, or None before the draw."""
    if place is None:
        middles = [int(room.joined * (part + 0.5) / PARTS) for part in range(PARTS)]
        return Outlook(None, sum(_odds(sale, room, middle) for middle in middles) / PARTS)
    ahead = max(place - room.serving, 0)
    eta = eta_of(ahead + (place >= room.serving), _speed(sale, room, now), sale.starts_at - now)
    return Outlook(eta, _odds(sale, room, place))


def _speed(sale: Sale, room: RoomState, now: int) -> float:
    """As it moves; at the beginning, before that can be known, as it is meant to."""
    target = room.rate_per_second or sale.room.rate_per_second
    if room.paused or sale.paused:
        return 0.0
    if room.ushering is None or room.opened_at is None:
        return float(target)
    pace = room.ushering.pace
    return pace.rate_per_second if now - room.opened_at < SPEED_WINDOW_MS else pace.speed_per_second


def _odds(sale: Sale, room: RoomState, place: int) -> float:
    ushering = room.ushering
    waiting = max(place - room.serving, 0)
    if ushering is None:
        return odds_of(sale.loaded_units, [Group(place, Seen())])
    each = ushering.pace.units_each
    holding = ushering.held / each
    paid = Seen(ushering.sold / each, max(ushering.taken - ushering.held - ushering.sold, 0) / each)
    # Who holds units now has not bought yet, but is known to have come and tried.
    bought = paid.did + holding * paid.share
    did_not = paid.did_not + holding * (1 - paid.share)
    unsold = ushering.seen.available + ushering.held
    before = [
        Group(int(holding), paid),
        Group(_inside(room, place), Seen(bought, did_not + room.passes_lapsed)),
        Group(waiting, Seen(bought, did_not + room.passes_lapsed + room.calls_lapsed)),
    ]
    return odds_of(unsold, before, basket=Basket(mean=each))


def _inside(room: RoomState, place: int) -> int:
    """People before this place who may buy now."""
    return min(max(room.passes, 0) + max(room.called, 0), place)
