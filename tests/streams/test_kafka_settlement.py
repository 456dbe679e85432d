"""Settlement from intents in a real Kafka: in parallel, each purchase once, whatever stops in between."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import asyncpg
import pytest
from confluent_kafka import Producer
from kafka_world import reading, url_of
from settle_harness import PRICE, SettleHarness, other_sale

from holdfast.domain.stock.command import Reserve
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.lab.load.kafka_broker import Broker
from holdfast.ledger.events.dead_letters import park_message
from holdfast.ledger.events.stream_messages import INTENTS
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.streams import parked_messages
from holdfast.settlement.interpreter import Interpreter
from holdfast.settlement.purchases import Purchases
from holdfast.streams.kafka import intents
from holdfast.streams.kafka.intents import IntentConsumer
from holdfast.streams.kafka.publisher import Publisher
from holdfast.streams.kafka.relay import KafkaRelay

pytestmark = pytest.mark.slow
pytest_plugins = ("settle_fixtures",)

ON_POSTGRESQL = pytest.mark.parametrize("place", ["postgresql"], indirect=True)


class Worker:
    """One member of the consumer group, and what it has settled."""

    def __init__(self, harness: SettleHarness, broker: Broker, group: str) -> None:
        posting = harness.posting()
        interpreter = Interpreter(harness.database, harness.gate, posting, {})
        self._purchases = Purchases(
            harness.database, posting, interpreter, rate_per_second=50_000, parallel=64, lease_ms=30_000
        )
        self.settled: list[str] = []

        async def name() -> str:
            return group

        async def park(message_id: str, reason: str, body: bytes) -> None:
            await harness.database.write(lambda c: park_message(c, message_id, reason, body, 1))

        self.consumer = IntentConsumer(url_of(broker), self._settle, park, name)
        self._task: asyncio.Task[None] | None = None

    async def _settle(self, sku_id: str, reservation_id: str) -> None:
        await self._purchases.settle(sku_id, reservation_id)
        self.settled.append(reservation_id)

    @property
    def has_partitions(self) -> bool:
        return self.consumer._consumer is not None and bool(self.consumer._consumer.assignment())

    def start(self) -> None:
        self._task = asyncio.create_task(self.consumer.agent().run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


class Site:
    def __init__(self, harness: SettleHarness, broker: Broker) -> None:
        self.harness, self.broker, self.group = harness, broker, f"group-{secrets.token_hex(4)}"

    @asynccontextmanager
    async def working(self, count: int) -> AsyncIterator[list[Worker]]:
        workers = [Worker(self.harness, self.broker, self.group) for _ in range(count)]
        for worker in workers:
            worker.start()
        try:
            yield workers
        finally:
            for worker in workers:
                await worker.stop()

    @asynccontextmanager
    async def relaying(self) -> AsyncIterator[None]:
        task = asyncio.create_task(KafkaRelay(self.harness.database, Publisher(url_of(self.broker))).agent().run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def until_assigned(self, workers: list[Worker]) -> None:
        """The group decides, which raises no event here."""
        async with asyncio.timeout(60):
            while not all(worker.has_partitions for worker in workers):  # noqa: ASYNC110 - see above
                await asyncio.sleep(0.05)

    async def sell(self, sku_id: str, count: int) -> list[str]:
        """So many purchases, each of another buyer who can pay."""
        await self.harness.open_sale(count, other_sale(sku_id))
        buyers = [f"{sku_id}-{number}" for number in range(count)]
        for buyer in buyers:
            await self.harness.wallet.credit(buyer, PRICE, "EUR", "k")
        ids = [new_reservation_id(sku_id, buyer) for buyer in buyers]
        reserves = [Reserve(id_, buyer, 1, 1, settle=True) for id_, buyer in zip(ids, buyers, strict=True)]
        await self.harness.buy_all(reserves, sku_id)
        return ids

    async def ordered(self) -> list[str]:
        return [order.reservation_id for order in await self.harness.rows(orders)]

    async def until_ordered(self, ids: list[str], also: Callable[[], bool] = lambda: True) -> None:
        """Workers write orders down, which raises no event here."""
        async with asyncio.timeout(90):
            while not (set(ids) <= set(await self.ordered()) and also()):
                await self.harness.drain()
                await asyncio.sleep(0.05)


@pytest.fixture
def site(harness: SettleHarness, broker: Broker) -> Site:
    """The topic also has what earlier tests published: purchases that this ledger does not know."""
    return Site(harness, broker)


async def test_workers_settle_in_parallel_and_each_purchase_once(site: Site) -> None:
    async with reading(site.broker, INTENTS) as reader, site.relaying(), site.working(3) as workers:
        await site.until_assigned(workers)
        ids = await site.sell("lamp", 60)
        await site.until_ordered(ids, lambda: sum(len(worker.settled) for worker in workers) >= 60)
        await reader.until(lambda: len(reader.seen) >= 60)
    assert sorted(await site.ordered()) == sorted(ids)
    assert len([worker for worker in workers if worker.settled]) >= 2, "one worker had all the partitions"
    assert len({each.partition for each in reader.seen}) >= 2, "intents of one product are in several partitions"


@ON_POSTGRESQL
async def test_what_a_worker_did_not_commit_is_given_to_the_next_and_settled_once(site: Site) -> None:
    async with site.relaying():
        async with site.working(1) as [first]:
            ids = await site.sell("lamp", 30)
            await site.until_ordered(ids, lambda: len(first.settled) >= 30)
            # As if it had died before it committed.
            first.consumer._offsets.take()
        async with site.working(1) as [second]:
            more = await site.sell("shade", 5)
            await site.until_ordered(more, lambda: set(more) <= set(second.settled))
    assert sorted(await site.ordered()) == sorted([*ids, *more])


@ON_POSTGRESQL
async def test_a_worker_with_too_much_in_hand_pauses_and_goes_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intents, "IN_FLIGHT_MAX", 10)
    monkeypatch.setattr(intents, "POLL_MAX", 5)
    async with site.relaying(), site.working(1) as [worker]:
        most, purchases = 0, worker._purchases
        settle, may_go_on = purchases.settle, asyncio.Event()

        async def wait_and_settle(sku_id: str, reservation_id: str) -> None:
            nonlocal most
            most = max(most, len(worker.consumer._in_flight))
            await may_go_on.wait()
            await settle(sku_id, reservation_id)

        monkeypatch.setattr(purchases, "settle", wait_and_settle)
        ids = await site.sell("lamp", 60)
        async with asyncio.timeout(60):
            while not worker.consumer._is_paused:  # noqa: ASYNC110 - set by another task, without an event
                await asyncio.sleep(0.05)
        may_go_on.set()
        await site.until_ordered(ids)
    assert most <= 15, "it took more than it could work on"


@ON_POSTGRESQL
async def test_a_message_that_names_no_purchase_is_parked_and_the_rest_goes_on(site: Site) -> None:
    producer = Producer({"bootstrap.servers": site.broker.address, "log_level": 0})
    async with site.relaying(), site.working(1) as [worker]:
        nul = rb'{"data": {"purchase_id": "a\u0000", "sku_id": "lamp"}}'
        for poison in (b"", b"{", b'{"data": {"purchase_id": 7}}', b"\xff\xfe", nul):
            for partition in range(2):
                producer.produce(INTENTS, poison, b"x", partition)
        await asyncio.to_thread(producer.flush, 30)
        ids = await site.sell("lamp", 10)
        await site.until_ordered(ids, lambda: set(ids) <= set(worker.settled))
    parked = await site.harness.rows(parked_messages)
    assert len(parked) >= 10
    assert all(row.message_id.startswith(INTENTS) and row.reason.startswith("unreadable") for row in parked)


@ON_POSTGRESQL
async def test_a_product_that_cannot_be_settled_does_not_delay_the_others(
    site: Site, place: tuple[str, str, object]
) -> None:
    """Its pool is locked, as by a long transaction, and its hundred purchases are ahead of those of the others."""
    hot, cold = await site.sell("hot", 100), await site.sell("cold", 10)
    async with reading(site.broker, INTENTS) as reader, site.relaying():
        await reader.until(lambda: len(reader.seen) >= 110)
    connection = await asyncpg.connect(place[1])
    try:
        locked = connection.transaction()
        await locked.start()
        await connection.execute("SELECT 1 FROM pools WHERE sku_id = 'hot' FOR UPDATE")
        async with site.working(1):
            await site.until_ordered(cold)
            assert not set(hot) & set(await site.ordered()), "the pool was not locked, so this shows nothing"
            await locked.rollback()
            await site.until_ordered(hot)
    finally:
        await connection.close()
