"""A pass does not buy after its holder left the line, in whichever process they left."""

import pytest
from room_setup import SALE, RoomSetup

from holdfast.checkout.passes import Admission, Passes
from holdfast.errors import Unavailable
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


async def admitted(queue: RoomSetup, *buyers: str) -> dict[str, str]:
    """Their passes."""
    await queue.open()
    await queue.join(buyers)
    await queue.step(10)
    await queue.admit(*buyers)
    now_s = queue.clock.now // 1_000
    return {b: TOKENS.sign_pass(Pass(b, SALE.sale_id, f"ticket-of-{b}", now_s, now_s + 20)) for b in buyers}


@pytest.mark.parametrize("is_known", [True, False])
async def test_another_process_refuses_the_pass_at_the_next_purchase(queue: RoomSetup, is_known: bool) -> None:
    """`is_known`: the other process has read the room before. On SQLite there is no other process."""
    passes = await admitted(queue, "ada", "bob")
    rooms, other = process(queue)
    if is_known:
        await rooms.refresh()
    assert [await other.recheck(SALE, text) for text in passes.values()] == [Admission.ADMITTED] * 2
    await queue.leave("ada")
    if not is_known:
        await rooms.find(SALE.sale_id)
    refused = Admission.ADMITTED if queue.clock.dialect_name == "sqlite" else Admission.EXPIRED
    assert [await other.recheck(SALE, text) for text in passes.values()] == [refused, Admission.ADMITTED]
    await rooms.refresh()
    assert [other.check(SALE, b, text) for b, text in passes.items()] == [Admission.EXPIRED, Admission.ADMITTED]


async def test_while_the_ledger_does_not_answer_the_last_look_decides(
    queue: RoomSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_work: object) -> None:
        raise Unavailable("no answer")

    passes = await admitted(queue, "ada")
    _, other = process(queue)
    monkeypatch.setattr(queue.clock, "lock_free_read", fail)
    assert await other.recheck(SALE, passes["ada"]) is Admission.ADMITTED


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
