"""The agents of waiting rooms rest while nobody waits, and are woken by a join."""

import asyncio
from time import monotonic

from msgspec.structs import replace
from room_setup import SALE, SEALER, RoomSetup

from holdfast.room.join_queue import JoinQueue
from holdfast.room.line_advancer import STEP_S, LineAdvancer
from holdfast.room.wakeup import EMPTY_S, QUIET_S, Wakeup
from holdfast.testing.states import NOW

pytest_plugins = ("room_fixtures",)


async def test_the_advancer_rests_the_longer_the_less_there_is_to_do(queue: RoomSetup) -> None:
    assert await queue.advancer.pass_once() == EMPTY_S
    await queue.open(replace(SALE, starts_at=NOW + 60_000))
    assert await queue.advancer.pass_once() == EMPTY_S
    queue.clock.advance(59_000)
    assert await queue.advancer.pass_once() == 1.0
    queue.clock.advance(1_000)
    assert await queue.advancer.pass_once() == STEP_S
    assert await queue.advancer.pass_once() == QUIET_S
    await queue.join("a")
    assert await queue.advancer.pass_once() == STEP_S


async def test_a_join_wakes_every_agent_that_subscribed(queue: RoomSetup) -> None:
    await queue.open()
    wakeup = Wakeup()
    events = [wakeup.subscribe(), wakeup.subscribe()]
    queue.desk = JoinQueue(queue.clock, wakeup)
    await queue.join("a")
    assert all(event.is_set() for event in events)


async def test_a_crowd_that_joins_before_the_opening_hurries_nobody(queue: RoomSetup) -> None:
    """There is nothing to do before a sale opens, however often the agent is woken."""
    await queue.open(replace(SALE, starts_at=NOW + 60_000))
    wakeup, passes = Wakeup(), 0
    advancer = LineAdvancer(queue.clock, queue.advancer._look_at, SEALER, wakeup)
    look = advancer.pass_once

    async def counted() -> float:
        nonlocal passes
        passes += 1
        return await look()

    advancer.pass_once = counted  # type: ignore[method-assign]
    began, running = monotonic(), asyncio.create_task(advancer.agent().run())
    while monotonic() - began < 3 * STEP_S:
        wakeup.wake()
        await asyncio.sleep(0.001)
    running.cancel()
    assert passes <= (monotonic() - began) / STEP_S + 1
