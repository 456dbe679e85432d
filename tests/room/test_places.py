"""Places in line: one for each, in the order of arrival, kept whatever happens."""

import asyncio

import pytest
from msgspec.structs import replace
from room_setup import PATIENCE_S, SALE, RoomSetup
from sqlalchemy import select

from holdfast.domain.room.room import Admit, Standing, Use
from holdfast.errors import Busy
from holdfast.ledger.tables.room import places
from holdfast.room import join_queue as desk_module
from holdfast.room.join_queue import JoinQueue

pytest_plugins = ("room_fixtures",)


async def test_everyone_gets_the_next_place_and_joining_again_the_same_one(queue: RoomSetup) -> None:
    await queue.open()
    first = await queue.join(f"b{n}" for n in range(300))
    again = await queue.join(f"b{n}" for n in reversed(range(400)))
    assert [place.arrival for place in first] == list(range(300))
    assert [place.arrival for place in again[100:]] == list(range(300))[::-1]
    assert {p.ticket_id for p in first} == {p.ticket_id for p in again if p.arrival < 300}
    # New buyers come behind all of the others, in arrival order.
    assert [place.arrival for place in again[:100]] == list(range(300, 400))


async def test_one_who_joins_twice_in_one_moment_has_one_place(queue: RoomSetup) -> None:
    await queue.open()
    found = await queue.join(["ada", "bob", "ada", "ada", "eve"])
    assert [place.arrival for place in found] == [0, 1, 0, 0, 2]
    assert (await queue.room()).joined == 3


async def test_two_desks_on_one_room_share_its_numbers(queue: RoomSetup) -> None:
    await queue.open()
    other = RoomSetup(queue.clock, queue.gate, queue.look_at)
    await asyncio.gather(
        queue.join(f"a{n}" for n in range(700)),
        other.join([*(f"b{n}" for n in range(700)), *(f"a{n}" for n in range(0, 700, 7))]),
    )
    numbers = {place.arrival for place in (queue.stood | other.stood).values()}
    assert numbers == set(range(1_400))
    assert all(queue.stood[b].arrival == p.arrival for b, p in other.stood.items() if b in queue.stood)


async def test_nobody_is_admitted_before_their_turn_and_a_pass_asked_for_twice_is_the_same(
    queue: RoomSetup,
) -> None:
    await queue.open()
    await queue.join(["ada", "bob"])
    assert await queue.admit("ada") == [Standing.WAITING]
    await queue.step(2)
    ada = Admit("ada", 0, "ticket-of-ada", 20_000)
    [first] = await queue.ask(ada)
    queue.clock.advance(5_000)
    [again] = await queue.ask(ada)
    assert first.place is not None
    assert again.place == first.place
    assert (await queue.room()).passes_given == 1


@pytest.mark.parametrize("wrong", [Admit("bob", 0, "ticket-of-ada", 1), Admit("ada", 1, "ticket-of-ada", 1),
                                   Admit("ada", 0, "ticket-of-bob", 1), Admit("eve", 0, "x", 1)])  # fmt: skip
async def test_only_the_ticket_of_a_place_gets_its_pass(queue: RoomSetup, wrong: Admit) -> None:
    await queue.open()
    await queue.join(["ada", "bob"])
    await queue.step(3)
    [stand] = await queue.ask(wrong)
    assert (stand.standing, stand.place) == (Standing.GONE, None)
    assert (await queue.room()).passes_given == 0


async def test_who_leaves_and_who_lets_a_pass_lapse_joins_again_at_the_end(queue: RoomSetup) -> None:
    await queue.open()
    await queue.join(["ada", "bob", "eve"])
    await queue.step(3)
    assert await queue.admit("bob") == [Standing.ADMITTED]
    await queue.leave("ada")
    assert await queue.admit("ada") == [Standing.GONE]
    queue.clock.advance(20_000)
    assert await queue.admit("bob") == [Standing.OVER]
    again = await queue.join(["bob", "ada", "eve"])
    assert [place.arrival for place in again] == [3, 4, 2]
    # The list of the lottery stays whole.
    kept = await queue.clock.read(lambda c: c.execute(select(places.c.arrival, places.c.buyer_id)).all())
    assert sorted(map(tuple, kept)) == [(0, "ada"), (1, "bob"), (2, "eve"), (3, "bob"), (4, "ada")]


async def test_what_people_do_with_their_passes_is_counted_once_however_late_it_is_heard(queue: RoomSetup) -> None:
    await queue.open(replace(SALE, loaded_units=4))
    await queue.join(["soon", "late", "never", "left", "stale"])
    await queue.step(3)
    assert await queue.admit("soon", "late", "never", "left") == [Standing.ADMITTED] * 4
    await queue.buy("soon")
    room = await queue.room()
    assert (room.passes, room.passes_used, room.units_taken) == (3, 1, 1)
    await queue.leave("left")
    assert (await queue.room()).passes_lapsed == 1
    queue.clock.advance(6_000)
    await queue.step()
    assert (await queue.room()).passes_stale == 3
    queue.clock.advance(20_000)
    await queue.step()
    assert ((await queue.room()).passes_lapsed, (await queue.room()).passes) == (3, 0)
    # The reservation was made in time, and heard of now.
    await queue.buy("late")
    room = await queue.room()
    assert (room.passes_used, room.stale_used, room.passes_lapsed, room.passes) == (2, 1, 2, 0)
    assert room.passes_stale - room.stale_used - room.passes_lapsed == 0


async def test_a_line_that_is_full_says_busy_and_nobody_in_it_is_lost(queue: RoomSetup) -> None:
    await queue.open()
    queue.desk = JoinQueue(queue.clock, batch_max=2, queue_max=3, timeout_s=PATIENCE_S)
    waiting = asyncio.gather(queue.join(["a"]), queue.join(["b"]), queue.join(["c"]))
    await asyncio.sleep(0)
    with pytest.raises(Busy):
        await queue.join(["d"])
    assert [place.arrival for [place] in await waiting] == [0, 1, 2]


async def _let_ada_in(queue: RoomSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    """What she does with her pass is noted again soon, where it could not be noted."""
    monkeypatch.setattr(desk_module, "NOTE_AGAIN_S", 0.01)
    await queue.open()
    await queue.join(["ada"])
    await queue.step(2)
    await queue.admit("ada")


async def test_a_use_that_a_full_line_has_no_room_for_is_noted_a_moment_later(
    queue: RoomSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _let_ada_in(queue, monkeypatch)
    queue.desk = JoinQueue(queue.clock, batch_max=2, queue_max=3, timeout_s=PATIENCE_S)
    waiting = asyncio.gather(queue.join(["a"]), queue.join(["b"]), queue.join(["c"]))
    await asyncio.sleep(0)
    queue.desk.note_use(queue.sale.sale_id, Use("ada", 1))
    await waiting
    await _until_a_pass_was_used(queue)
    assert ((await queue.room()).passes_used, (await queue.room()).units_taken) == (1, 1)


async def test_a_use_that_waited_too_long_is_noted_again_and_counted_once(
    queue: RoomSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _let_ada_in(queue, monkeypatch)
    # Any wait is too long; until there is time again.
    queue.desk = JoinQueue(queue.clock, timeout_s=0.0)
    queue.desk.note_use(queue.sale.sale_id, Use("ada", 1), more_tries=1_000_000)
    await asyncio.sleep(0.05)
    assert (await queue.room()).passes_used == 0
    queue.desk._timeout_s = PATIENCE_S
    await _until_a_pass_was_used(queue)
    await queue.desk.drain()
    assert ((await queue.room()).passes_used, (await queue.room()).units_taken) == (1, 1)


async def _until_a_pass_was_used(queue: RoomSetup) -> None:
    async with asyncio.timeout(30):
        while (await queue.room()).passes_used == 0:  # noqa: ASYNC110 - the room is in a database, and no event comes of it
            await asyncio.sleep(0.01)
