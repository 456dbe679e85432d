"""The one sentence on top of a buyer's timeline."""

from typing import Any

import pytest

from holdfast.audit.in_line import moments_in_line
from holdfast.audit.room_story import RoomStory, Standing
from holdfast.audit.search import Question
from holdfast.audit.summary import ordinal, summarise
from holdfast.audit.timeline import Moment
from holdfast.testing.states import MINUTE, NOW


def standing(**facts: Any) -> Standing:
    known: dict[str, Any] = {"sale_id": "drop", "sku_id": "sku", "place": 142, "joined_at": NOW}
    return Standing(**known | facts)


def said(*moments: Moment, **facts: Any) -> str:
    return summarise(RoomStory([standing(**facts)], []), moments)


def refused(at: int = NOW, what: str = "refused: a higher account tier was required") -> Moment:
    return Moment(at, "refused", what, "sku", sale_id="drop")


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"is_over": True, "is_sold_out": True, "last_served": 107}, "Joined 143rd; units ran out at 108th."),
        ({"is_over": True}, "Joined 143rd; the sale ended before their turn."),
        ({"ahead": 20}, "Joined 143rd; waiting, 20 ahead."),
        ({"place": None}, "Joined at 22:13:20; the lottery was not drawn yet."),
        ({"left_at": NOW + MINUTE}, "Joined 143rd; left at 22:14:20."),
        ({"was_called": True}, "Joined 143rd; called, and did not ask for the pass."),
        (
            {"was_called": True, "pass_at": NOW, "pass_until": NOW + MINUTE, "is_pass_over": True},
            "Joined 143rd; had a pass until 22:14:20 and did not buy.",
        ),
    ],
)
def test_a_place_in_line_is_summed_up(facts: dict[str, Any], sentence: str) -> None:
    assert said(**facts) == sentence


def test_what_was_reserved_comes_before_the_place_and_refusals_without_one_say_why() -> None:
    expired = Moment(NOW, "reservation.expired", "", "sku/2", 1, "rsv")
    bought = Moment(NOW, "reservation.confirmed", "", "sku/2", 2, "rsv")
    assert said(bought, expired) == "Joined 143rd; bought 2 units at 22:13:20."
    assert said(expired) == "Joined 143rd; did not pay in time for 1 unit at 22:13:20."
    nowhere = RoomStory([], [])
    twice = [refused(), refused(NOW + 1)]
    assert summarise(nowhere, twice) == "Refused 2 times, the last time because a higher account tier was required."
    late = refused(NOW + 2, "refused: all 5 units were sold")
    assert said(late, was_called=True, pass_at=NOW + 1, pass_until=NOW + MINUTE) == (
        "Joined 143rd; refused because all 5 units were sold."
    )
    assert summarise(nowhere, []) == "No records."


def test_everything_in_line_is_a_moment() -> None:
    whole = standing(called_at=NOW + 1, pass_at=NOW + 2, pass_until=NOW + 9, is_pass_over=True, left_at=NOW + 10)
    moments = moments_in_line(RoomStory([whole], [("later", "sku", NOW + 20)]), Question("ada"))
    assert [(one.at - NOW, one.type) for one in moments] == [
        (0, "room.joined"), (1, "room.called"), (2, "room.pass_given"), (9, "room.pass_expired"), (10, "room.left"),
        (20, "room.arrived"),
    ]  # fmt: skip
    assert moments[0].what == "joined the waiting room: 143rd in line"


def test_ordinals_are_english() -> None:
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 101, 111, 1_002)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "101st", "111th", "1,002nd",
    ]  # fmt: skip
