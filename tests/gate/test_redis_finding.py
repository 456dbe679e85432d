"""Finding reservations where Redis is the gate: together, from Redis or the ledger, pool by pool."""

import asyncio
from typing import Any

import pytest
from redis_tampering import Through, over

from holdfast.domain.stock.command import Move, Provision, Transition
from holdfast.domain.stock.reservation import Reservation, Status, new_reservation_id
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.gate.redis.encoding import Keys
from holdfast.gate.redis.link.port import Command
from holdfast.gate.redis.views import RedisViews
from holdfast.ledger.engine.database import T, Work
from holdfast.testing.states import SKU, reserve
from redis_setup import RedisSetup
from set_clock import SetClock

OTHER = "other"


class Counting(Through):
    """Counts the calls; those about a pool may hang, or break off."""

    calls = 0
    hung = ""
    broken = ""

    async def call(self, key: str, *commands: Command) -> list[Any]:
        self.calls += 1
        if key == self.hung:
            await asyncio.Event().wait()
        if key == self.broken:
            raise OutcomeUnknown("the connection broke off")
        return await super().call(key, *commands)


@pytest.fixture
def link(redis_setup: RedisSetup) -> Counting:
    return Counting(redis_setup.link)


@pytest.fixture
def views(redis_setup: RedisSetup, link: Counting) -> RedisViews:
    return RedisViews(over(link), redis_setup.clock, redis_setup.splits)


async def held(world: RedisSetup, sku_id: str, count: int) -> list[str]:
    ids = [new_reservation_id(sku_id, "ada") for _ in range(count)]
    # Being paid for, so that none is over: looks are by the clock of Redis, and not by that of the test.
    settle = [Move(Transition.SETTLE, i) for i in ids]
    await world.open_gate().apply(sku_id, [Provision(100), *[reserve(i) for i in ids], *settle])
    return ids


async def test_those_who_ask_at_once_share_a_call(redis_setup: RedisSetup, link: Counting, views: RedisViews) -> None:
    ids = await held(redis_setup, SKU, 50)
    await views.find(ids[0])
    link.calls = 0
    found = await asyncio.gather(*[views.find(i) for i in ids])
    assert [r and r.reservation_id for r in found] == ids
    assert link.calls == 1


async def test_what_redis_has_forgotten_is_found_in_the_ledger(redis_setup: RedisSetup, views: RedisViews) -> None:
    ids = await held(redis_setup, SKU, 6)
    await redis_setup.open_gate().apply(SKU, [Move(Transition.CONFIRM, i) for i in ids[:3]])
    await redis_setup.drain(SKU)
    await redis_setup.link.call(Keys(SKU).holds, ["HDEL", Keys(SKU).holds, *ids[:3]])
    never_was = new_reservation_id(SKU, "ada")
    found = await asyncio.gather(*[views.find(i) for i in [*ids, never_was, "nonsense"]])
    assert [r and (r.reservation_id, r.status) for r in found] == [
        *[(i, Status.CONFIRMED) for i in ids[:3]],
        *[(i, Status.SETTLING) for i in ids[3:]],
        None,
        None,
    ]


async def test_a_pool_that_does_not_answer_holds_up_nobody_elses(
    redis_setup: RedisSetup, link: Counting, views: RedisViews
) -> None:
    [slow], [quick] = await held(redis_setup, SKU, 1), await held(redis_setup, OTHER, 1)
    link.hung = Keys(SKU).holds
    waiting = asyncio.create_task(views.find(slow))
    found = await views.find(quick)
    assert found is not None
    assert found.reservation_id == quick
    assert not waiting.done()
    waiting.cancel()


async def test_a_look_that_breaks_off_has_changed_nothing_and_says_so(
    redis_setup: RedisSetup, link: Counting, views: RedisViews
) -> None:
    [held_id] = await held(redis_setup, SKU, 1)
    link.broken = Keys(SKU).holds
    with pytest.raises(Unavailable):
        await views.find(held_id)
    link.broken = ""
    found = await views.find(held_id)
    assert found is not None
    assert found.status is Status.SETTLING


class Away(SetClock):
    """The ledger does not answer."""

    async def read(self, work: Work[T]) -> T:
        raise Unavailable("away")


async def test_what_is_held_is_found_while_the_ledger_is_away_however_many_ask(
    redis_setup: RedisSetup, link: Counting
) -> None:
    ids = await held(redis_setup, SKU, 2)
    views = RedisViews(over(link), Away(redis_setup.database), redis_setup.splits)
    asked = [*ids, new_reservation_id(SKU, "ada")]
    found = await asyncio.gather(*[views.find(i) for i in asked], return_exceptions=True)
    assert [type(one) for one in found] == [Reservation, Reservation, Unavailable]


async def test_a_hold_of_an_older_redis_is_not_called_expired_if_it_was_paid(
    redis_setup: RedisSetup, views: RedisViews
) -> None:
    gate, paid = redis_setup.open_gate(), new_reservation_id(SKU, "ada")
    await gate.apply(SKU, [Provision(10), reserve(paid, ttl_ms=1_000)])
    [before] = await redis_setup.link.call(Keys(SKU).holds, ["HGET", Keys(SKU).holds, paid])
    await gate.apply(SKU, [Move(Transition.CONFIRM, paid)])
    await redis_setup.drain(SKU)
    # Redis came back with the data of a moment ago, and the deadline has passed.
    await redis_setup.link.call(Keys(SKU).holds, ["HSET", Keys(SKU).holds, paid, before])
    redis_setup.clock.advance(5_000)
    found = await views.find(paid)
    assert found is not None
    assert found.status is Status.CONFIRMED


async def test_what_a_torn_pool_has_lost_is_not_said_to_be_unknown(redis_setup: RedisSetup, views: RedisViews) -> None:
    gate, lost = redis_setup.open_gate(), new_reservation_id(SKU, "ada")
    await gate.apply(SKU, [Provision(10)])
    await gate.apply(SKU, [reserve(lost)])
    await redis_setup.link.call(Keys(SKU).holds, ["DEL", Keys(SKU).holds])
    with pytest.raises(Unavailable):
        await views.find(lost)
