"""Kafka and workers are killed at random points: no event is lost or out of order, each purchase is settled once.

Two workers relay events and settle from intents, beside a sale. From a seed, the broker or a worker is killed with
`kill -9` and started again, while purchases go on. Afterwards the topic has every event of the ledger, of each key in
the ledger's order, and the ledger has one order for each purchase.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kafka_world import PARTITIONS, Reader, first_times, reading
from processes import WorkerProcess
from settle_harness import PRICE, SettleHarness, other_sale
from sqlalchemy import Connection, select

from databases import new_postgres_database
from holdfast.domain.stock.event_type import EventType
from holdfast.gate.sql import SqlGate
from holdfast.lab.load.kafka_broker import Broker, kafka_broker
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.events.stream_messages import EVENTS
from holdfast.ledger.mark.mark import number_of, read_incarnations
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import events
from holdfast.verify.prove import prove

SKUS = ("lamp", "shade", "plug")
DEATHS = 3
BOUGHT_MEANWHILE = 12
WITHIN_S = 150


@asynccontextmanager
async def workers(url: str, broker: Broker, directory: Path) -> AsyncIterator[list[WorkerProcess]]:
    settings = {
        "database_url": url,
        "kafka_url": f"{broker.url}?partitions={PARTITIONS}",
        "settlement_source": "kafka",
    }
    started = [WorkerProcess(directory / f"worker-{number}", **settings) for number in range(2)]
    try:
        for worker in started:
            worker.launch()
        yield started
    finally:
        for worker in started:
            worker.end()


async def buy(harness: SettleHarness, number: int) -> str:
    sku_id, buyer = SKUS[number % len(SKUS)], f"buyer-{number}"
    await harness.wallet.credit(buyer, PRICE, "EUR", "k")
    return await harness.buy(buyer, sku_id=sku_id)


async def fault(random_: random.Random, broker: Broker, running: list[WorkerProcess]) -> None:
    """Kill one of them, and start it again after a while."""
    victims: list[Broker | WorkerProcess] = [broker, *running]
    victim = random_.choice(victims)
    victim.kill()
    await asyncio.sleep(random_.uniform(0.0, 1.0))
    if isinstance(victim, Broker):
        await victim.restart()
    else:
        victim.launch()


async def test_killed_brokers_and_workers_lose_no_event_and_settle_nothing_twice(
    postgres_url: str, tmp_path: Path, seed: int
) -> None:
    random_, url = random.Random(seed), new_postgres_database(postgres_url)
    database = open_database(url)
    harness, bought = SettleHarness("postgresql", database, SqlGate(database), None), list[str]()
    try:
        with kafka_broker() as broker:
            async with reading(broker) as reader, workers(url, broker, tmp_path) as running:
                for sku_id in SKUS:
                    await harness.open_sale(1_000, other_sale(sku_id))
                for death in range(DEATHS):
                    dying = asyncio.create_task(fault(random_, broker, running))
                    for number in range(BOUGHT_MEANWHILE):
                        bought.append(await buy(harness, death * BOUGHT_MEANWHILE + number))
                        await asyncio.sleep(random_.uniform(0.0, 0.1))
                    await dying
                await _until_settled(harness, bought)
                await _until_published(reader, database)
        assert sorted(order.reservation_id for order in await harness.rows(orders)) == sorted(bought)
        assert [finding.body() for finding in await database.read(prove) if not finding.ok] == []
        _check_order(reader, await database.read(_published))
    finally:
        await database.close()


async def _until_settled(harness: SettleHarness, bought: list[str]) -> None:
    """Workers write it down, which raises no event here."""
    async with asyncio.timeout(WITHIN_S):
        while len(await harness.rows(orders)) < len(bought):  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.2)


async def _until_published(reader: Reader, database: Database) -> None:
    expected = {id_ for ids in (await database.read(_published)).values() for id_ in ids}
    await reader.until(lambda: expected <= {each.id for each in reader.of(EVENTS)}, WITHIN_S)


def _published(connection: Connection) -> dict[str, list[str]]:
    """By key, the IDs of the events in the ledger, in its order."""
    history, found = read_incarnations(connection), dict[str, list[str]]()
    for row in connection.execute(select(events).where(events.c.type.in_(list(EventType))).order_by(events.c.seq)):
        found.setdefault(row.sku_id, []).append(f"evt_{number_of(history, row.seq)}")
    return found


def _check_order(reader: Reader, expected: dict[str, list[str]]) -> None:
    for key, ids in expected.items():
        seen = [each.id for each in first_times(reader.by_key(EVENTS)[key]) if each.type != "pool.updated"]
        assert seen == ids, f"the events of {key} are not those of the ledger, in its order"
