"""Fifty products, one of them in high demand: how long the purchases of the other 49 wait to be settled.

In simulated time: a transaction takes the longer the more rows it changes, and those of different pools run side by
side, as in PostgreSQL. So the figures are the same on every machine.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any

import pytest
from settle_harness import PRICE, other_sale
from sqlalchemy import select

from holdfast.domain.stock.command import Provision, Reserve
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.gate.sql import SqlGate
from holdfast.lab.simulate.determinism import EPOCH_S, Log, controlled
from holdfast.lab.simulate.ledger.server import LedgerServer, SimulatedDatabase
from holdfast.lab.simulate.loop import SimulatedLoop
from holdfast.ledger.engine.database import TRANSACTION_TIMEOUT_S, T, Work
from holdfast.ledger.money.wallet import Wallet
from holdfast.ledger.sales.sales import insert_sale, put_pool_in_sale
from holdfast.ledger.tables.sales import is_sold, orders
from holdfast.runtime.metrics import SETTLED
from holdfast.settlement.interpreter import Interpreter
from holdfast.settlement.posting import Posting
from holdfast.settlement.purchases import Purchases
from holdfast.settlement.settler import Settler

COLD = [f"cold-{number}" for number in range(49)]
HOT = "hot"
PURCHASES_EACH, CROWD = 3, 1_400
WITHIN_S = 1.0
WINNERS = 10_000
# As a worker has by default.
CONNECTIONS = 8
# A batch of 64 orders takes about 0.2 s.
TRANSACTION_S, ROW_S = 0.002, 0.000_3


class SlowLedger(SimulatedDatabase):
    def __init__(self, server: LedgerServer) -> None:
        super().__init__(server, {})
        self._connections = asyncio.Semaphore(CONNECTIONS)
        # How long transactions took, added up.
        self.wrote_s = 0.0

    async def write(
        self, work: Work[T], *, timeout_s: float = TRANSACTION_TIMEOUT_S, brief: bool = False, autocommit: bool = False
    ) -> T:
        async with self._connections:
            before = self._server.raw.total_changes
            result = self._server.transact(work, None)
            takes_s = TRANSACTION_S + ROW_S * (self._server.raw.total_changes - before)
            self.wrote_s += takes_s
            await asyncio.sleep(takes_s)
            return result

    async def read(self, work: Work[T]) -> T:
        async with self._connections:
            await asyncio.sleep(TRANSACTION_S)
            return self._server.read(work)

    lock_free_read = read


class Shop:
    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop, self.random = loop, Random(18)
        self.server = LedgerServer(loop, self.random)
        self.database: Any = SlowLedger(self.server)
        self.gate = SqlGate(self.database)
        posting = Posting(self.database, has_redis=False, attempts_max=3)
        interpreter = Interpreter(self.database, self.gate, posting, {})
        self.settler = Settler(self.database, posting, interpreter)
        self.purchases = Purchases(
            self.database, posting, interpreter, rate_per_second=5_000, parallel=64, lease_ms=30_000
        )

    async def open(self) -> None:
        await Wallet(self.database).credit("ada", PRICE * 2 * WINNERS, "EUR", "k")
        for sku_id in [HOT, *COLD]:
            sale = other_sale(sku_id)
            await self.gate.apply(sku_id, [Provision(WINNERS)])
            await self.database.write(partial(insert_sale, sale=sale))
            await self.database.write(partial(put_pool_in_sale, sku_id=sku_id, sale_id=sale.sale_id, now=0))

    async def buy(self, sku_id: str, count: int = 1) -> list[str]:
        ids = [new_reservation_id(sku_id, "ada") for _ in range(count)]
        await self.gate.apply(sku_id, [Reserve(id_, "ada", 1, 1, settle=True) for id_ in ids])
        return ids

    async def settle_intents(self, sku_id: str, ids: Sequence[str]) -> None:
        await asyncio.gather(*[self.purchases.settle(sku_id, id_) for id_ in ids])

    @asynccontextmanager
    async def settling(self, source: str, crowd: Sequence[str]) -> AsyncIterator[None]:
        work = self.settler.agent().run() if source == "ledger" else self.settle_intents(HOT, crowd)
        task = asyncio.create_task(work)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def until_settled(self, ids: Collection[str]) -> dict[str, float]:
        """A worker writes orders down, which raises no event here."""
        while not (settled := self.settled_at()).keys() >= set(ids):  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.05)
        return settled

    async def visit(self, sku_id: str, at_s: float, source: str) -> tuple[str, float]:
        await asyncio.sleep(at_s)
        [id_] = await self.buy(sku_id)
        bought_at = self.loop.time()
        if source == "kafka":
            await self.settle_intents(sku_id, [id_])
        return id_, bought_at

    def settled_at(self) -> dict[str, float]:
        asked = select(orders.c.reservation_id, orders.c.confirmed_at).where(is_sold)
        rows = self.server.read(lambda c: c.execute(asked).all())
        return {row.reservation_id: row.confirmed_at / 1000 - EPOCH_S for row in rows}


async def waits_of_the_cold(shop: Shop, source: str, *, beside_a_crowd: bool) -> list[float]:
    await shop.open()
    crowd = await shop.buy(HOT, CROWD) if beside_a_crowd else []
    async with shop.settling(source, crowd):
        visits = [shop.visit(sku_id, shop.random.uniform(0, WITHIN_S), source) for sku_id in COLD * PURCHASES_EACH]
        bought = dict(await asyncio.gather(*visits))
        assert not crowd or len(shop.settled_at()) < CROWD, "the crowd was gone before the others came"
        settled = await shop.until_settled(bought)
    return sorted(settled[id_] - bought_at for id_, bought_at in bought.items())


async def speed_for_winners(shop: Shop, source: str) -> float:
    """The share of the time in which an order was being written."""
    await shop.open()
    winners = [id_ for _ in range(WINNERS // 500) for id_ in await shop.buy(HOT, 500)]
    began_at, wrote_s = shop.loop.time(), shop.database.wrote_s
    async with shop.settling(source, winners):
        settled = await shop.until_settled(winners)
        # The last batch is counted after its commit.
        await asyncio.sleep(1)
    took_s = max(settled.values()) - began_at
    return float(shop.database.wrote_s - wrote_s) / took_s


def simulated(work: Callable[[Shop], Coroutine[Any, Any, T]]) -> T:
    loop = SimulatedLoop()
    with controlled(Random(18), loop, Log()):
        try:
            return loop.run_until_complete(work(Shop(loop)))
        finally:
            loop.finish()


def p99(source: str, *, beside_a_crowd: bool) -> float:
    waits = simulated(partial(waits_of_the_cold, source=source, beside_a_crowd=beside_a_crowd))
    return waits[int(len(waits) * 0.99)]


@pytest.mark.parametrize("source", ["ledger", "kafka"])
def test_a_hot_product_of_fifty_does_not_delay_the_other_49(source: str) -> None:
    alone = p99(source, beside_a_crowd=False)
    assert p99(source, beside_a_crowd=True) <= 2 * alone, alone


@pytest.mark.slow
@pytest.mark.parametrize(("source", "least"), [("ledger", 0.6), ("kafka", 0.9)])
def test_ten_thousand_winners_are_settled_as_fast_as_the_ledger_writes(source: str, least: float) -> None:
    """In ledger mode the settler leaves a third of the time to those who buy from the pool (`REST_SHARE`)."""
    settled = SETTLED.labels("wallet", "confirmed")
    before = settled._value.get()
    assert simulated(partial(speed_for_winners, source=source)) >= least
    assert settled._value.get() - before == WINNERS
