"""Looking at pools: shared by all who ask, and never older than the question."""

import asyncio

import pytest

from holdfast.domain.command import Move, Provision, Transition
from holdfast.domain.pool import Availability, Pool
from holdfast.errors import Unavailable
from holdfast.gate.sql import SqlGate
from holdfast.ledger.database import Database, T, Work
from holdfast.ledger.lookout import Lookout, look_into
from holdfast.ledger.queries import PoolView
from set_clock import SetClock
from worlds import MINUTE, NOW, SKU, reserve


class SlowReads(SetClock):
    """Reads that are made and then held back until the test lets them go."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.made = asyncio.Semaphore(0)
        self.may_go = asyncio.Semaphore(0)
        self.reads = 0
        self.failure: Exception | None = None

    async def read(self, work: Work[T]) -> T:
        self.reads += 1
        seen = await super().read(work)
        self.made.release()
        await self.may_go.acquire()
        if self.failure is not None:
            raise self.failure
        return seen

    def let_go(self, reads: int) -> None:
        for _ in range(reads):
            self.may_go.release()


def available(view: PoolView | None) -> int:
    assert view is not None
    return view.pool.available


async def test_a_crowd_that_asks_during_a_look_shares_the_next_one(database: Database) -> None:
    slow = SlowReads(database)
    await SqlGate(database).apply(SKU, [Provision(7)])
    lookout = Lookout(look_into(slow))
    first = asyncio.create_task(lookout.look(SKU))
    await slow.made.acquire()
    crowd = [asyncio.create_task(lookout.look(SKU)) for _ in range(100)]
    slow.let_go(2)
    assert {available(view) for view in await asyncio.gather(first, *crowd)} == {7}
    assert slow.reads == 2


async def test_nobody_is_shown_a_state_older_than_their_question(database: Database) -> None:
    slow = SlowReads(database)
    gate = SqlGate(database)
    await gate.apply(SKU, [Provision(7)])
    lookout = Lookout(look_into(slow))
    before = asyncio.create_task(lookout.look(SKU))
    await slow.made.acquire()
    await gate.apply(SKU, [reserve("a")])
    after = asyncio.create_task(lookout.look(SKU))
    slow.let_go(2)
    assert [available(await before), available(await after)] == [7, 6]


async def test_one_look_serves_questions_about_many_pools(database: Database) -> None:
    slow = SlowReads(database)
    for units, sku_id in enumerate("abc"):
        await SqlGate(database).apply(sku_id, [Provision(units)])
    lookout = Lookout(look_into(slow))
    slow.let_go(9)
    views = await asyncio.gather(*[lookout.look(sku_id) for sku_id in ("c", "b", "unknown", "a")])
    assert [None if view is None else available(view) for view in views] == [2, 1, None, 0]
    assert slow.reads == 1


async def test_one_who_leaves_does_not_take_the_answer_along(database: Database) -> None:
    slow = SlowReads(database)
    await SqlGate(database).apply(SKU, [Provision(7)])
    lookout = Lookout(look_into(slow))
    leaving, staying = asyncio.create_task(lookout.look(SKU)), asyncio.create_task(lookout.look(SKU))
    await slow.made.acquire()
    leaving.cancel()
    slow.let_go(1)
    assert available(await staying) == 7


@pytest.mark.parametrize("failure", [Unavailable("away"), RuntimeError("defect")])
async def test_a_look_that_fails_is_unavailable_to_all_and_the_next_one_is_not(
    database: Database, failure: Exception
) -> None:
    slow = SlowReads(database)
    await SqlGate(database).apply(SKU, [Provision(7)])
    lookout = Lookout(look_into(slow))
    slow.failure = failure
    slow.let_go(1)
    answers = await asyncio.gather(lookout.look(SKU), lookout.look(SKU), return_exceptions=True)
    assert [type(answer) for answer in answers] == [Unavailable] * 2
    slow.failure = None
    slow.let_go(1)
    assert available(await lookout.look(SKU)) == 7


async def test_a_pool_is_seen_as_its_next_buyer_would_find_it(database: Database) -> None:
    clock = SetClock(database)
    await SqlGate(clock).apply(SKU, [Provision(3), reserve("a", quantity=2), reserve("b", ttl_ms=5 * MINUTE)])
    lookout = Lookout(look_into(clock))
    assert await lookout.look(SKU) == PoolView(Pool(SKU, 3, held=3, active_reservations=2), NOW + MINUTE)
    clock.advance(MINUTE)
    assert await lookout.look(SKU) == PoolView(Pool(SKU, 3, held=1, active_reservations=1), None)


async def test_a_pool_says_whether_there_is_hope(database: Database) -> None:
    clock = SetClock(database)
    gate, lookout = SqlGate(clock), Lookout(look_into(clock))
    await gate.apply(SKU, [Provision(1)])
    seen = [await lookout.look(SKU)]
    for command in (reserve("a"), Move(Transition.SETTLE, "a"), Move(Transition.CONFIRM, "a")):
        await gate.apply(SKU, [command])
        seen.append(await lookout.look(SKU))
    a, h, s = Availability.AVAILABLE, Availability.ALL_HELD, Availability.SOLD_OUT
    assert [(v.pool.availability, v.next_return_at) for v in seen if v] == [
        (a, None),
        (h, NOW + MINUTE),
        (h, None),
        (s, None),
    ]
