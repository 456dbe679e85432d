"""Joining and leaving: nobody who waits is held up by those who left, however many they are."""

import pytest
from msgspec.structs import replace
from room_setup import SALE, RoomSetup

from holdfast.domain.room.room import REJOINS_MAX, Join, Leave, Standing
from holdfast.domain.sale.sale import Room, RoomMode
from holdfast.ledger.room.rooms import left_places
from holdfast.testing.states import NOW

pytest_plugins = ("room_fixtures",)

# Few units and a low rate, as in the attack: calling those who left one by one would take most of a minute.
SLOW = replace(SALE, loaded_units=5, starts_at=NOW + 1_000, room=Room(RoomMode.FIFO, 5, 20))


async def come_and_go(queue: RoomSetup, *buyers: str) -> None:
    await queue.join(buyers)
    for buyer in buyers:
        await queue.leave(buyer)


async def opened(queue: RoomSetup) -> None:
    queue.clock.advance(1_000)
    await queue.step(2)


@pytest.mark.parametrize("mode", [RoomMode.FIFO, RoomMode.LOTTERY])
async def test_a_newcomer_is_called_in_the_first_step_after_any_number_of_joins_and_leaves(
    queue: RoomSetup, mode: RoomMode
) -> None:
    await queue.open(replace(SLOW, room=Room(mode, 5, 20)))
    await come_and_go(queue, *(f"b{n}" for n in range(40)))
    [stand] = await queue.ask(Join("honest", "ticket-of-honest"))
    assert stand.place is not None
    assert (stand.waiting, (await queue.room()).waiting) == (1, 1)
    queue.stood["honest"] = stand.place
    await opened(queue)
    assert await queue.admit("honest") == [Standing.ADMITTED]
    assert await queue.buy("honest") == 1


async def test_those_who_left_in_between_count_neither_as_ahead_nor_as_called(queue: RoomSetup) -> None:
    await queue.open(SLOW)
    await queue.join(["first"])
    await come_and_go(queue, *(f"b{n}" for n in range(40)))
    await queue.join(["second"])
    await come_and_go(queue, *(f"c{n}" for n in range(40)))
    await queue.join(["third"])
    room = await queue.room()
    gone = await queue.clock.read(lambda c: left_places(c, room))
    seen = replace(room, left_places=gone)
    assert [seen.ahead_of(queue.stood[buyer].arrival) for buyer in ("first", "second", "third")] == [0, 1, 2]
    await opened(queue)
    await queue.step(5)
    assert await queue.admit("first", "second", "third") == [Standing.ADMITTED] * 3
    room = await queue.room()
    assert (room.serving, room.waiting, room.called, room.left) == (83, 0, 0, 0)
    # When the grace time is over they are not counted as people who did not come.
    queue.clock.advance(20_000)
    await queue.step()
    assert (await queue.room()).calls_lapsed == 0


async def test_who_leaves_after_the_draw_is_skipped_at_the_place_they_drew(queue: RoomSetup) -> None:
    await queue.open(replace(SLOW, room=Room(RoomMode.LOTTERY, 5, 20)))
    people = [f"b{n}" for n in range(60)]
    await queue.join(people)
    queue.clock.advance(1_000)
    await queue.step()
    room = await queue.room()
    last = max(people, key=lambda buyer: room.place_of(queue.stood[buyer].arrival))
    for buyer in people:
        if buyer != last:
            await queue.leave(buyer)
    await queue.step()
    assert await queue.admit(last) == [Standing.ADMITTED]


async def test_a_buyer_can_leave_and_come_back_only_so_often(queue: RoomSetup) -> None:
    await queue.open(SLOW)
    for number in range(REJOINS_MAX + 1):
        [stand] = await queue.ask(Join("eve", f"ticket-{number}"))
        assert stand.place is not None
        queue.stood["eve"] = stand.place
        await queue.leave("eve")
    refused = await queue.ask(Join("eve", "once more"), Join("ada", "ticket-of-ada"))
    assert [stand.standing for stand in refused] == [Standing.LEFT_TOO_OFTEN, Standing.WAITING]
    assert [stand.standing for stand in await queue.ask(Join("eve", "alone"))] == [Standing.LEFT_TOO_OFTEN]
    assert (await queue.room()).waiting == 1


async def test_leaving_and_joining_in_one_batch_is_counted_with_the_times_before(queue: RoomSetup) -> None:
    await queue.open(SLOW)
    for _ in range(REJOINS_MAX):
        await come_and_go(queue, "eve")
    [place] = await queue.join(["eve"])
    stands = await queue.ask(Leave("eve", place.arrival, place.ticket_id), Join("eve", "once more"))
    assert [stand.standing for stand in stands] == [Standing.GONE, Standing.LEFT_TOO_OFTEN]


async def test_a_turn_that_was_missed_is_not_a_leave(queue: RoomSetup) -> None:
    await queue.open(replace(SALE, room=Room(RoomMode.FIFO, 50, 4)))
    for _ in range(REJOINS_MAX + 2):
        await queue.join(["slow"])
        await queue.step(3)
        assert await queue.admit("slow") == [Standing.ADMITTED]
        queue.clock.advance(4_000)
    [stand] = await queue.ask(Join("slow", "another"))
    assert stand.standing is Standing.WAITING
