"""Whoever looks after rooms rests while nobody is in one, and is woken by a join."""

import asyncio

from msgspec.structs import replace
from room_world import SALE, Hall

from holdfast.room.bell import EMPTY_S, QUIET_S, Bell
from holdfast.room.desk import Desk
from holdfast.room.usher import STEP_S
from worlds import NOW

pytest_plugins = ("room_fixtures",)


async def test_a_rest_ends_when_the_bell_rings_and_is_none_at_all_if_it_rang_before() -> None:
    bell = Bell()
    ears = [bell.ear(), bell.ear()]
    resting = [asyncio.create_task(ear.rest(3_600)) for ear in ears]
    await asyncio.sleep(0)
    bell.ring()
    await asyncio.wait_for(asyncio.gather(*resting), 30)
    bell.ring()
    await asyncio.wait_for(ears[0].rest(3_600), 30)
    await ears[0].rest(0.001)


async def test_the_usher_rests_the_longer_the_less_there_is_to_do(hall: Hall) -> None:
    assert await hall.usher.pass_once() == EMPTY_S
    await hall.open(replace(SALE, starts_at=NOW + 60_000))
    assert await hall.usher.pass_once() == EMPTY_S
    hall.clock.advance(59_000)
    assert await hall.usher.pass_once() == 1.0
    hall.clock.advance(1_000)
    assert await hall.usher.pass_once() == STEP_S
    assert await hall.usher.pass_once() == QUIET_S
    await hall.join("a")
    assert await hall.usher.pass_once() == STEP_S


async def test_the_desk_rings_when_somebody_has_joined(hall: Hall) -> None:
    await hall.open()
    bell = Bell()
    hall.desk = Desk(hall.clock, bell)
    resting = asyncio.create_task(bell.ear().rest(3_600))
    await asyncio.sleep(0)
    await hall.join("a")
    await asyncio.wait_for(resting, 30)
