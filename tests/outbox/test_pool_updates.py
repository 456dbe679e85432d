"""`pool.updated`: the counts of pools that changed, at most once a second for each, beside history."""

import asyncio
from typing import Any

import asyncpg
import pytest
from outbox_world import SKU, OutboxWorld
from sqlalchemy import func, select, update

from holdfast.domain.stock.command import Provision
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.deliveries import Delivery
from holdfast.ledger.events.webhooks import Webhook
from holdfast.ledger.tables.stock import events, pools, splits
from holdfast.ledger.tables.streams import streams
from holdfast.ledger.tables.webhooks import deliveries
from holdfast.webhooks.pool_updates import PoolUpdates
from receiver import receiving

WAITS_FOR_A_LOCK = """\
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"""
NOWHERE = "http://127.0.0.1:9/hooks"


class Counting:
    """Passes of several workers, each a second after the last one that wrote, or at once."""

    def __init__(self, world: OutboxWorld) -> None:
        self.world, self.updates = world, PoolUpdates(world.database)

    async def a_second_later(self) -> int:
        await self.world.database.write(lambda c: c.execute(update(streams).values(updated_at=0)))
        return await self.updates.pass_once()

    async def not_a_second_later(self) -> None:
        """However long the machine takes."""
        soon = await self.world.database.read(self.world.database.now_ms) + 60_000
        await self.world.database.write(lambda c: c.execute(update(streams).values(updated_at=soon)))

    async def log(self, webhook: Webhook) -> list[Delivery]:
        return [delivery for delivery in await self.world.log(webhook) if delivery.type == "pool.updated"]


@pytest.fixture
async def world(database: Database) -> OutboxWorld:
    world = OutboxWorld(database)
    await world.stock()
    return world


@pytest.fixture
async def counting(world: OutboxWorld) -> Counting:
    return Counting(world)


def counts(delivery: Delivery) -> dict[str, Any]:
    return {name: delivery.event["data"][name] for name in ("total_units", "available", "held", "sold")}


async def test_a_webhook_hears_how_many_are_available_held_and_sold(world: OutboxWorld, counting: Counting) -> None:
    webhook = await world.add(NOWHERE, "pool.updated")
    await world.live(3)
    assert await counting.a_second_later() == 1
    [delivery] = await counting.log(webhook)
    assert counts(delivery) == {"total_units": 1_000, "available": 997, "held": 0, "sold": 3}
    assert (delivery.event["type"], delivery.event["subject"], delivery.subject) == ("pool.updated", SKU, SKU)


async def test_changes_within_a_second_are_one_update(world: OutboxWorld, counting: Counting) -> None:
    webhook = await world.add(NOWHERE, "pool.*")
    assert await counting.updates.pass_once() == 1
    for _ in range(5):
        await world.live()
        await counting.not_a_second_later()
        assert await counting.updates.pass_once() == 0, "a second update within a second"
        assert await PoolUpdates(world.database).pass_once() == 0, "of another worker"
    assert await counting.a_second_later() == 1
    log = await counting.log(webhook)
    assert counts(log[-1])["sold"] == 5
    assert await counting.a_second_later() == 0, "nothing changed"


async def test_a_receiver_that_is_down_finds_one_update_per_pool_and_its_backoff_kept(
    world: OutboxWorld, counting: Counting
) -> None:
    webhook = await world.add(NOWHERE, "pool.updated")
    await counting.a_second_later()
    [first] = await counting.log(webhook)
    later = first.due_at + 3_600_000
    await world.database.write(lambda c: c.execute(update(deliveries).values(attempts=4, due_at=later)))
    for sold in range(1, 4):
        await world.live()
        await counting.a_second_later()
        [delivery] = await counting.log(webhook)
        assert (counts(delivery)["sold"], delivery.attempts, delivery.due_at) == (sold, 4, later)
    assert delivery.delivery_id != first.delivery_id, "a receiver would take it for the old one"


async def test_it_is_delivered_by_http(world: OutboxWorld, counting: Counting) -> None:
    with receiving() as receiver:
        await world.add(receiver.url, "pool.updated")
        await world.live()
        await counting.a_second_later()
        async with world.delivering():
            [received] = await receiver.until_accepted(1)
    assert b'"type":"pool.updated"' in received.body
    assert b'"available":999' in received.body


async def test_without_a_subscriber_nothing_is_written(world: OutboxWorld, counting: Counting) -> None:
    await world.add(NOWHERE, "order.*")
    await world.live()
    assert await counting.a_second_later() == 0
    assert await PoolUpdates(world.database, has_stream=True).pass_once() == 1


async def test_history_does_not_have_it(world: OutboxWorld, counting: Counting) -> None:
    await world.add(NOWHERE, "pool.updated")
    number = select(func.count()).select_from(events)
    before = await world.database.read(lambda c: c.execute(number).scalar())
    assert await counting.a_second_later() == 1
    assert await world.database.read(lambda c: c.execute(number).scalar()) == before


async def test_every_pool_has_its_own_and_the_one_that_waited_longest_is_first(
    world: OutboxWorld, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.ledger.events.pool_updates.UPDATES_MAX", 2)
    webhook = await world.add(NOWHERE, "pool.updated")
    for name in ("a", "b", "c"):
        await world.gate.apply(name, [Provision(1)])
    assert [await counting.a_second_later() for _ in range(3)] == [2, 2, 0]
    assert sorted(delivery.subject for delivery in await counting.log(webhook)) == ["a", "b", "c", SKU]


async def test_the_shards_of_a_split_pool_are_one(world: OutboxWorld, counting: Counting) -> None:
    if world.database.dialect_name == "sqlite":
        return  # Pools are split only with Redis, where the ledger is PostgreSQL.
    webhook = await world.add(NOWHERE, "pool.updated")
    await counting.a_second_later()
    for shard in ("big/0of2", "big/1of2"):
        await world.gate.apply(shard, [Provision(5)])

    def split(connection: Any) -> None:
        connection.execute(splits.insert().values(sku_id="big", shards=2, total=10))
        connection.execute(update(pools).where(pools.c.sku_id == "big/1of2").values(held=2, sold=1))

    await world.database.write(split)
    assert await counting.a_second_later() == 1
    delivery = (await counting.log(webhook))[-1]
    assert (delivery.subject, counts(delivery)) == (
        "big",
        {"total_units": 10, "available": 7, "held": 2, "sold": 1},
    )


async def test_a_delivery_that_a_sender_leases_meanwhile_is_not_deleted(
    migrated_postgres: Database, postgres_database_url: str
) -> None:
    world = OutboxWorld(migrated_postgres)
    await world.stock()
    counting = Counting(world)
    webhook = await world.add(NOWHERE, "pool.updated")
    await counting.a_second_later()
    [leased] = await counting.log(webhook)
    await world.live()
    sender = await asyncpg.connect(postgres_database_url)
    watcher = await asyncpg.connect(postgres_database_url)
    try:
        async with sender.transaction():
            await sender.execute("UPDATE deliveries SET leased_until = 9000000000000000")
            passing = asyncio.create_task(counting.a_second_later())
            async with asyncio.timeout(10):
                while not passing.done() and not await watcher.fetchval(WAITS_FOR_A_LOCK):  # noqa: ASYNC110 - the server tells nobody
                    await asyncio.sleep(0.01)
        assert await passing == 1
    finally:
        await sender.close()
        await watcher.close()
    assert leased.delivery_id in {delivery.delivery_id for delivery in await counting.log(webhook)}
