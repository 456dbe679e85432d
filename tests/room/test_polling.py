"""How often a line is told to look at `now`."""

import pytest
from msgspec.structs import replace
from room_setup import SALE

from holdfast.domain.room.room import RoomState
from holdfast.domain.sale.sale import Room, RoomMode
from holdfast.http.contract.schemas.room import LotteryOut
from holdfast.http.endpoints.now import now_out, poll_ms
from holdfast.testing.states import NOW


def line(waiting: int) -> RoomState:
    return RoomState(sale_id="drop", seed="00" * 32, seed_hash="0" * 64, joined=waiting + 7, serving=7)


@pytest.mark.parametrize(
    ("waiting", "pass_seconds", "poll"),
    [
        (0, 300, 2_000),
        (9_999, 300, 2_000),
        (50_000, 300, 4_500),
        (5_000_000, 300, 10_000),
        (50_000, 8, 1_000),
        (0, 1, 500),
    ],
)
def test_the_longer_the_line_the_rarer_and_never_so_rare_that_a_turn_is_missed(
    waiting: int, pass_seconds: int, poll: int
) -> None:
    sale = replace(SALE, room=Room(RoomMode.FIFO, 50, pass_seconds))
    assert poll_ms(sale, line(waiting), NOW) == poll


def test_the_seed_is_not_told_before_everything_it_depends_on_is() -> None:
    sale = replace(SALE, room=Room(RoomMode.LOTTERY))
    closed = replace(line(10), entrants=17, opened_at=NOW)
    assert now_out(sale, closed, NOW, None).lottery == LotteryOut("0" * 64)
    drawn = replace(closed, digest="d" * 64)
    assert now_out(sale, drawn, NOW, None).lottery == LotteryOut("0" * 64, "00" * 32, 17, "d" * 64)
