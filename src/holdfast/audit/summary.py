"""One sentence that answers: why did I not get one?"""

from collections.abc import Sequence

from holdfast.audit.room_story import RoomStory, Standing
from holdfast.audit.timeline import REFUSED, Moment, time_of_day

_ENDS = {
    "reservation.confirmed": "bought",
    "reservation.settling": "is paying for",
    "reservation.created": "has in the cart",
    "reservation.extended": "has in the cart",
    "reservation.reopened": "has in the cart",
    "reservation.cancelled": "removed from the cart",
    "reservation.expired": "did not pay in time for",
    "reservation.failed": "could not pay for",
}


def summarise(story: RoomStory, moments: Sequence[Moment]) -> str:
    """About the latest place; without a place, about the latest attempt."""
    latest = story.standings[-1] if story.standings else None
    outcome = _outcome(latest, moments)
    if latest is None:
        return f"{outcome[0].upper()}{outcome[1:]}."
    return f"{_joined(latest)}{outcome}."


def ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def _joined(standing: Standing) -> str:
    if standing.place is None:
        return f"Joined at {time_of_day(standing.joined_at)}; "
    return f"Joined {ordinal(standing.place + 1)}; "


def _outcome(standing: Standing | None, moments: Sequence[Moment]) -> str:
    mine = [one for one in moments if one.reservation_id is not None and _is_of(one, standing)]
    known = [one for one in mine if one.type in _ENDS]
    bought = [one for one in known if one.type == "reservation.confirmed"]
    if known:
        last = (bought or known)[-1]
        return f"{_ENDS[last.type]} {_units(last)}{_by(last)}"
    if standing is not None and (said := _in_line(standing, moments)) is not None:
        return said
    refused = [one for one in moments if one.type == REFUSED and _is_of(one, standing)]
    if refused:
        times = "" if len(refused) == 1 else f"{len(refused):,} times, the last time "
        return f"refused {times}because {refused[-1].what.removeprefix('refused: ')}"
    return "no records" if standing is None else "called, and did not ask for the pass"


def _in_line(standing: Standing, moments: Sequence[Moment]) -> str | None:
    """None for a buyer whose turn came, and who was then refused or did not come."""
    if standing.left_at is not None:
        return f"left at {time_of_day(standing.left_at)}"
    if standing.place is None:
        return "the sale ended before the draw" if standing.is_over else "the lottery was not drawn yet"
    if not standing.was_called:
        return _never_called(standing)
    if standing.pass_at is None or any(one.type == REFUSED and one.at >= standing.pass_at for one in moments):
        return None
    if standing.is_pass_over:
        assert standing.pass_until is not None
        return f"had a pass until {time_of_day(standing.pass_until)} and did not buy"
    return "has a pass and did not buy yet"


def _never_called(standing: Standing) -> str:
    if standing.is_sold_out and standing.last_served is not None:
        return f"units ran out at {ordinal(standing.last_served + 1)}"
    if standing.is_sold_out:
        return "units ran out before their turn"
    if standing.is_over:
        return "the sale ended before their turn"
    return f"waiting, {standing.ahead:,} ahead"


def _is_of(moment: Moment, standing: Standing | None) -> bool:
    return standing is None or moment.sale_id == standing.sale_id or moment.sku_id.split("/")[0] == standing.sku_id


def _units(moment: Moment) -> str:
    quantity = moment.quantity or 0
    return f"{quantity:,} unit{'' if quantity == 1 else 's'}"


def _by(moment: Moment) -> str:
    return f" at {time_of_day(moment.at)}"
