"""The moments of a buyer in waiting rooms."""

from collections.abc import Iterator

from holdfast.audit.room_story import RoomStory, Standing
from holdfast.audit.search import Question
from holdfast.audit.summary import ordinal
from holdfast.audit.timeline import Moment, time_of_day


def moments_in_line(story: RoomStory, question: Question) -> list[Moment]:
    found = [moment for standing in story.standings for moment in _moments(standing)]
    found += [
        Moment(at, "room.arrived", "arrived, and will get a place shortly", sku_id, sale_id=sale_id)
        for sale_id, sku_id, at in story.arriving
    ]
    since, until = question.since_ms, question.until_ms
    return [one for one in found if (since is None or one.at >= since) and (until is None or one.at < until)]


def _moments(standing: Standing) -> Iterator[Moment]:
    def moment(at: int, type_: str, what: str) -> Moment:
        return Moment(at, type_, what, standing.sku_id, sale_id=standing.sale_id)

    place = standing.place
    where = "for the draw" if place is None else f"{ordinal(place + 1)} in line"
    yield moment(standing.joined_at, "room.joined", f"joined the waiting room: {where}")
    if standing.called_at is not None:
        yield moment(standing.called_at, "room.called", "called: it was their turn")
    if standing.pass_at is not None:
        until = time_of_day(standing.pass_until or 0, standing.pass_at)
        yield moment(standing.pass_at, "room.pass_given", f"got a pass: may buy until {until}")
    if standing.used_at is not None:
        yield moment(standing.used_at, "room.pass_used", "used the pass to buy")
    elif standing.is_pass_over and standing.pass_until is not None:
        yield moment(standing.pass_until, "room.pass_expired", "the pass expired unused")
    if standing.left_at is not None:
        yield moment(standing.left_at, "room.left", "left the waiting room")
