"""A pass does not buy after its holder left the line, in whichever process they left."""

from room_setup import SALE, RoomSetup

from holdfast.checkout.passes import Admission, Passes
from holdfast.room.snapshot import REFRESH_S, RoomSnapshot
from holdfast.room.tokens import Pass, Tokens
from holdfast.room.wakeup import EMPTY_S, Wakeup
from holdfast.runtime.signing import SigningKey

pytest_plugins = ("room_fixtures",)

TOKENS = Tokens([SigningKey("k", "s" * 32)])


def process(queue: RoomSetup) -> tuple[RoomSnapshot, Passes]:
    """One of several that sell."""
    rooms = RoomSnapshot(queue.clock, dict, Wakeup())
    return rooms, Passes(TOKENS, rooms, lambda: queue.clock.now)


async def test_another_process_refuses_the_pass_from_its_next_look_on(queue: RoomSetup) -> None:
    await queue.open()
    await queue.join(["ada", "bob"])
    await queue.step(10)
    await queue.admit("ada", "bob")
    now_s = queue.clock.now // 1_000
    passes = {
        buyer: TOKENS.sign_pass(Pass(buyer, SALE.sale_id, f"ticket-of-{buyer}", now_s, now_s + 20))
        for buyer in ("ada", "bob")
    }
    rooms, other = process(queue)
    await rooms.refresh()
    assert [other.check(SALE, buyer, text) for buyer, text in passes.items()] == [Admission.ADMITTED] * 2
    await queue.leave("ada")
    await rooms.refresh()
    assert other.check(SALE, "ada", passes["ada"]) is Admission.EXPIRED
    assert other.check(SALE, "bob", passes["bob"]) is Admission.ADMITTED


async def test_the_next_look_is_two_seconds_away_at_most(queue: RoomSetup) -> None:
    """While anybody stands in line, a quarter of a second."""
    rooms, _ = process(queue)
    await rooms.refresh()
    assert rooms.rest_s() == EMPTY_S == 2.0
    await queue.open()
    await queue.join(["ada"])
    await queue.step()
    await rooms.refresh()
    assert rooms.rest_s() == REFRESH_S == 0.25
