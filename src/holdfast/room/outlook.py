"""The waiting time and the odds for a place, computed from the state of the room."""

from holdfast.domain.room.odds import Basket, Group, Outlook, Seen, eta_of, told_odds
from holdfast.domain.room.pace import SPEED_WINDOW_MS
from holdfast.domain.room.room import RoomState
from holdfast.domain.sale.sale import Sale

# Before a draw any place is possible, so the odds are averaged over the middles of this many parts of the line.
PARTS = 5


def outlook_of(sale: Sale, room: RoomState, place: int | None, now: int, ahead: int | None = None) -> Outlook:
    """`place` counts from 0; None before the draw. `ahead` comes from the room's state unless the caller has a newer
    one."""
    if place is None:
        middles = [int(room.waiting * (part + 0.5) / PARTS) for part in range(PARTS)]
        told = [odds for middle in middles if (odds := _odds(sale, room, middle, middle)) is not None]
        return Outlook(None, sum(told) / PARTS if len(told) == PARTS else None)
    ahead = room.ahead_of(place) if ahead is None else ahead
    eta = eta_of(ahead + (place >= room.serving), _speed(sale, room, now), sale.starts_at - now)
    return Outlook(eta, _odds(sale, room, place, ahead))


def _speed(sale: Sale, room: RoomState, now: int) -> float:
    """The measured speed, or the target speed before there is a measurement."""
    target = room.rate_per_second or sale.room.rate_per_second
    if room.paused or sale.paused:
        return 0.0
    if room.advancer_state is None or room.opened_at is None:
        return float(target)
    pace = room.advancer_state.pace
    return pace.rate_per_second if now - room.opened_at < SPEED_WINDOW_MS else pace.speed_per_second


def _odds(sale: Sale, room: RoomState, place: int, ahead: int) -> float | None:
    advancer_state = room.advancer_state
    if advancer_state is None:
        return told_odds(sale.loaded_units, [Group(ahead, Seen())])
    each = advancer_state.pace.units_each
    holding = advancer_state.held / each
    paid = Seen(
        advancer_state.sold / each, max(advancer_state.taken - advancer_state.held - advancer_state.sold, 0) / each
    )
    # Holders of units have not bought yet, but they did show up.
    bought = paid.did + holding * paid.share
    did_not = paid.did_not + holding * (1 - paid.share)
    unsold = advancer_state.seen.available + advancer_state.held
    before = [
        Group(int(holding), paid),
        Group(_inside(room, place), Seen(bought, did_not + room.passes_lapsed)),
        Group(ahead, Seen(bought, did_not + room.passes_lapsed + room.calls_lapsed)),
    ]
    return told_odds(unsold, before, Basket(mean=each))


def _inside(room: RoomState, place: int) -> int:
    """People ahead of this place who may buy now."""
    return min(max(room.passes, 0) + max(room.called, 0), place)
