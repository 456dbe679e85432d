"""Looking at pools, reservations and orders: shared by all who ask, and never older than the question."""

import asyncio
from functools import partial

import pytest
from sqlalchemy import insert

from holdfast.domain.stock.command import Move, Provision, Transition
from holdfast.domain.stock.pool import Availability, Pool
from holdfast.domain.stock.reservation import Status
from holdfast.errors import Unavailable
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database, T, Work
from holdfast.ledger.sales.sale_lists import ORDERS_SHOWN, list_orders, orders_in
from holdfast.ledger.stock.queries import PoolView
from holdfast.ledger.stock.shared_reads import SharedReads, find_in, look_into
from holdfast.ledger.tables.sales import orders
from holdfast.testing.states import MINUTE, NOW, SKU, reserve
from set_clock import SetClock


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

    def release(self, reads: int) -> None:
        for _ in range(reads):
            self.may_go.release()


def available(view: PoolView | None) -> int:
    assert view is not None
    return view.pool.available


async def test_a_crowd_that_asks_during_a_look_shares_the_next_one(database: Database) -> None:
    slow = SlowReads(database)
    await SqlGate(database).apply(SKU, [Provision(7)])
    reads = SharedReads(look_into(slow))
    first = asyncio.create_task(reads.look(SKU))
    await slow.made.acquire()
    crowd = [asyncio.create_task(reads.look(SKU)) for _ in range(100)]
    slow.release(2)
    assert {available(view) for view in await asyncio.gather(first, *crowd)} == {7}
    assert slow.reads == 2


async def test_nobody_is_shown_a_state_older_than_their_question(database: Database) -> None:
    slow = SlowReads(database)
    gate = SqlGate(database)
    await gate.apply(SKU, [Provision(7)])
    reads = SharedReads(look_into(slow))
    before = asyncio.create_task(reads.look(SKU))
    await slow.made.acquire()
    await gate.apply(SKU, [reserve("a")])
    after = asyncio.create_task(reads.look(SKU))
    slow.release(2)
    assert [available(await before), available(await after)] == [7, 6]


async def test_one_look_serves_questions_about_many_pools(database: Database) -> None:
    slow = SlowReads(database)
    for units, sku_id in enumerate("abc"):
        await SqlGate(database).apply(sku_id, [Provision(units)])
    reads = SharedReads(look_into(slow))
    slow.release(9)
    views = await asyncio.gather(*[reads.look(sku_id) for sku_id in ("c", "b", "unknown", "a")])
    assert [None if view is None else available(view) for view in views] == [2, 1, None, 0]
    assert slow.reads == 1


async def test_a_crowd_shares_looks_at_reservations_and_each_sees_its_own(database: Database) -> None:
    slow = SlowReads(database)
    gate = SqlGate(slow)
    await gate.apply(SKU, [Provision(100), *[reserve(f"r{n}", f"owner-{n}") for n in range(50)]])
    reads = SharedReads(find_in(slow))
    first = asyncio.create_task(reads.look("r0"))
    await slow.made.acquire()
    await gate.apply(SKU, [Move(Transition.CONFIRM, f"r{n}") for n in range(50)])
    crowd = [asyncio.create_task(reads.look(f"r{n % 50}")) for n in range(100)]
    nothing = asyncio.create_task(reads.look("never-was"))
    slow.release(2)
    before, *after = await asyncio.gather(first, *crowd)
    assert before is not None
    assert before.status is Status.ACTIVE
    assert [r and (r.reservation_id, r.owner_id, r.status) for r in after] == [
        (f"r{n % 50}", f"owner-{n % 50}", Status.CONFIRMED) for n in range(100)
    ]
    assert (await nothing, slow.reads) == (None, 2)


async def test_a_reservation_is_seen_as_expired_from_its_deadline_on(database: Database) -> None:
    clock = SetClock(database)
    await SqlGate(clock).apply(SKU, [Provision(1), reserve("a")])
    reads, seen = SharedReads(find_in(clock)), []
    for advance_ms in (0, MINUTE - 1, 1):
        clock.advance(advance_ms)
        seen.append(await reads.look("a"))
    assert [r and r.status for r in seen] == [Status.ACTIVE, Status.ACTIVE, Status.EXPIRED]


async def test_a_crowd_shares_looks_at_orders_and_each_sees_its_own_newest(database: Database) -> None:
    numbers = {"nobody": 0, "ada": 1, "bob": 3, "cem": ORDERS_SHOWN, "dee": ORDERS_SHOWN + 1, "eve": 3 * ORDERS_SHOWN}
    sold = [order(f"{n:03}-{buyer}", buyer) for buyer, count in numbers.items() for n in range(count)]
    await database.write(lambda c: c.execute(insert(orders), sold))
    slow = SlowReads(database)
    slow.release(1)
    reads = SharedReads(orders_in(slow))
    pages = await asyncio.gather(*[reads.look(buyer) for buyer in numbers])
    assert slow.reads == 1
    assert [page is not None and page[1] for page in pages] == [count > ORDERS_SHOWN for count in numbers.values()]
    for buyer, page in zip(numbers, pages, strict=True):
        listed = await database.read(partial(list_orders, limit=ORDERS_SHOWN, buyer_id=buyer))
        assert listed == (page or ([], False))


def order(order_id: str, buyer_id: str) -> dict[str, object]:
    return {
        "order_id": order_id, "reservation_id": f"r-{order_id}", "sale_id": "sale", "sku_id": SKU, "buyer_id": buyer_id,
        "quantity": 1, "amount": 100, "currency": "EUR", "payment": "wallet", "status": "confirmed",
        "created_at": NOW, "updated_at": NOW,
    }  # fmt: skip


async def test_one_who_leaves_does_not_take_the_answer_along(database: Database) -> None:
    slow = SlowReads(database)
    await SqlGate(database).apply(SKU, [Provision(7)])
    reads = SharedReads(look_into(slow))
    leaving, staying = asyncio.create_task(reads.look(SKU)), asyncio.create_task(reads.look(SKU))
    await slow.made.acquire()
    leaving.cancel()
    slow.release(1)
    assert available(await staying) == 7


@pytest.mark.parametrize("failure", [Unavailable("away"), RuntimeError("defect")])
async def test_a_look_that_fails_is_unavailable_to_all_and_the_next_one_is_not(
    database: Database, failure: Exception
) -> None:
    slow = SlowReads(database)
    await SqlGate(database).apply(SKU, [Provision(7)])
    reads = SharedReads(look_into(slow))
    slow.failure = failure
    slow.release(1)
    answers = await asyncio.gather(reads.look(SKU), reads.look(SKU), return_exceptions=True)
    assert [type(answer) for answer in answers] == [Unavailable] * 2
    slow.failure = None
    slow.release(1)
    assert available(await reads.look(SKU)) == 7


async def test_a_pool_is_seen_as_its_next_buyer_would_find_it(database: Database) -> None:
    clock = SetClock(database)
    await SqlGate(clock).apply(SKU, [Provision(3), reserve("a", quantity=2), reserve("b", ttl_ms=5 * MINUTE)])
    reads = SharedReads(look_into(clock))
    assert await reads.look(SKU) == PoolView(Pool(SKU, 3, held=3, active_reservations=2), NOW + MINUTE)
    clock.advance(MINUTE)
    assert await reads.look(SKU) == PoolView(Pool(SKU, 3, held=1, active_reservations=1), None)


async def test_a_pool_says_whether_there_is_hope(database: Database) -> None:
    clock = SetClock(database)
    gate, reads = SqlGate(clock), SharedReads(look_into(clock))
    await gate.apply(SKU, [Provision(1)])
    seen = [await reads.look(SKU)]
    for command in (reserve("a"), Move(Transition.SETTLE, "a"), Move(Transition.CONFIRM, "a")):
        await gate.apply(SKU, [command])
        seen.append(await reads.look(SKU))
    a, h, s = Availability.AVAILABLE, Availability.ALL_HELD, Availability.SOLD_OUT
    assert [(v.pool.availability, v.next_return_at) for v in seen if v] == [
        (a, None),
        (h, NOW + MINUTE),
        (h, None),
        (s, None),
    ]
