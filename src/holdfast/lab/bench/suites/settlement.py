"""`holdfast bench settlement`: orders paid from wallets per second, on one hot pool.

Reservations waiting for payment are settled as fast as possible: by the settler, many per transaction, and for
comparison with one transaction per order, which writes the same rows. Purchases from the same pool during settlement
show what that costs other buyers. Orders are counted after every round.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from time import perf_counter

import uvloop
from sqlalchemy import Connection, func, insert, select

from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale, SaleState
from holdfast.domain.stock.command import Command, Provision, Reserve
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.gate.batcher import Batcher
from holdfast.gate.sql import SqlGate
from holdfast.lab.bench.measure.progress import Progress
from holdfast.lab.bench.measure.report import Report
from holdfast.lab.bench.measure.rounds import Figure, Round, measure
from holdfast.lab.bench.suites.gate import open_bench_database
from holdfast.lab.load.engines import postgres, postgres_version
from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.load.latency import latency_of
from holdfast.lab.load.machine import machine
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.sales import insert_sale, put_pool_in_sale
from holdfast.ledger.tables.money import wallet_accounts
from holdfast.ledger.tables.sales import is_sold, orders
from holdfast.runtime.garbage import tune_gc
from holdfast.settlement.interpreter import Interpreter
from holdfast.settlement.posting import Posting
from holdfast.settlement.settler import Settler

BUYERS = 1_000
UNITS = 10**6
# More than any machine settles in a second.
BACKLOG_PER_SECOND = 8_000
PURCHASES_PER_SECOND = 200
# High enough that nothing throttles the settler.
NO_LIMIT = 10**9


class SettlementBench:
    """Every round sells its own pool, so that its orders can be counted."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        self._database = database
        self._runner = runner
        self._gate = SqlGate(database)
        self._posting = Posting(database, has_redis=False, attempts_max=3)
        self._numbers = itertools.count(1)

    def figures(self) -> list[Figure]:
        return [
            self._figure("holdfast", "wallet orders, one hot pool, by the settler", self._by_settler),
            self._figure("one_per_order", "the same, one transaction per order", self._one_by_one),
            self._figure("purchases", "purchases at that pool while it is settled at full speed", self._purchases),
        ]

    def _figure(self, name: str, about: str, work: Callable[[str, float], Awaitable[Round]]) -> Figure:
        return Figure(name, about, lambda seconds: self._runner.run(self._round(work, seconds)))

    async def _round(self, work: Callable[[str, float], Awaitable[Round]], seconds: float) -> Round:
        number = next(self._numbers)
        sku_id = f"pool-{number}"
        await self._gate.apply(sku_id, [Provision(UNITS)])
        await self._database.write(lambda c: _open_sale(c, sku_id, number))
        for _ in range(0, int(BACKLOG_PER_SECOND * seconds), 500):
            await self._gate.apply(sku_id, [self._purchase(sku_id) for _ in range(500)])
        done = await work(sku_id, seconds)
        while await self._database.write(lambda c: self._posting.settle_due(c, sku_id, 500)):
            pass  # The next round must start without a backlog.
        return done

    def _purchase(self, sku_id: str) -> Command:
        buyer_id = f"buyer-{next(self._numbers) % BUYERS}"
        return Reserve(new_reservation_id(sku_id, buyer_id), buyer_id, 1, 1, settle=True)

    async def _by_settler(self, sku_id: str, seconds: float) -> Round:
        settler = self._settler()
        return await self._settled(sku_id, seconds, settler.pass_once)

    async def _one_by_one(self, sku_id: str, seconds: float) -> Round:
        async def one() -> int:
            return len(await self._database.write(lambda c: self._posting.settle_due(c, sku_id, 1)))

        return await self._settled(sku_id, seconds, one)

    def _settler(self) -> Settler:
        interpreter = Interpreter(self._database, self._gate, self._posting, {})
        return Settler(self._database, self._posting, interpreter, rate_per_second=NO_LIMIT)

    async def _settled(self, sku_id: str, seconds: float, some: Callable[[], Awaitable[int]]) -> Round:
        started, settled = perf_counter(), 0
        while perf_counter() - started < seconds and (count := await some()):
            settled += count
        took = perf_counter() - started
        counted = select(func.count()).select_from(orders).where(orders.c.sku_id == sku_id, is_sold)
        written = await self._database.read(lambda c: c.execute(counted).scalar_one())
        if written != settled:
            raise BenchFailed(f"{sku_id}: {settled} were settled, and there are {written} orders")
        return Round(settled / took)

    async def _purchases(self, sku_id: str, seconds: float) -> Round:
        """Requests are sent on schedule; latency counts from the scheduled time."""
        batcher, latencies = Batcher(self._gate), list[float]()
        settling = asyncio.create_task(self._settler().agent().run())
        started = perf_counter()

        async def buy(due: float) -> None:
            await asyncio.sleep(max(due - perf_counter(), 0))
            await batcher.submit(sku_id, self._purchase(sku_id))
            latencies.append(perf_counter() - due)

        count = int(PURCHASES_PER_SECOND * seconds)
        await asyncio.gather(*[buy(started + number / PURCHASES_PER_SECOND) for number in range(count)])
        took = perf_counter() - started
        settling.cancel()
        await asyncio.wait([settling])
        return Round(count / took, latency_of(latencies))


def _open_sale(connection: Connection, sku_id: str, number: int) -> None:
    sale = Sale(
        sale_id=f"sale-{number}",
        sku_id=sku_id,
        name=sku_id,
        price_amount=100,
        currency="EUR",
        starts_at=0,
        checkout=Checkout.INSTANT,
        payment=PaymentKind.WALLET,
        state=SaleState.READY,
    )
    insert_sale(connection, sale)
    put_pool_in_sale(connection, sku_id, sale.sale_id, 0)


def _fill_wallets(connection: Connection) -> None:
    """Writes balances only, without ledger entries, which this bench does not check."""
    balance = {"currency": "EUR", "balance": 10**15, "updated_at": 0}
    connection.execute(insert(wallet_accounts), [{"buyer_id": f"buyer-{n}", **balance} for n in range(BUYERS)])


def bench_settlement(engine: str, seconds: float) -> Report:
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(seconds * 4).shown())
        with progress.step("starting PostgreSQL"):
            server_url = stack.enter_context(postgres())
        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        database = stack.enter_context(open_bench_database(runner, engine, server_url))
        tune_gc()
        runner.run(database.write(_fill_wallets))
        measured = measure(SettlementBench(database, runner).figures(), seconds, progress)
        facts = machine(
            ["sqlalchemy", "asyncpg"], engine=engine, postgres=postgres_version(server_url), seconds=seconds
        )
    return Report(f"settlement on {engine}", measured, {"one_per_order": ("holdfast", "one_per_order")}, facts)
