"""Events in a real Kafka: in order per key, none lost, whatever stops in between."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from kafka_world import Reader, Seen, first_times, reading, url_of
from outbox_world import LIFE, SKU, OutboxWorld

from holdfast.errors import Unavailable
from holdfast.lab.load.kafka_broker import Broker
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.stream_messages import EVENTS, Message
from holdfast.ledger.events.streams import KAFKA, stream_lag
from holdfast.ledger.events.webhooks import latest_seq
from holdfast.streams.kafka.publisher import Publisher
from holdfast.streams.kafka.relay import KafkaRelay

pytestmark = pytest.mark.slow


@pytest.fixture
async def world(database: Database) -> OutboxWorld:
    world = OutboxWorld(database)
    await world.stock()
    return world


@asynccontextmanager
async def relaying(world: OutboxWorld, broker: Broker) -> AsyncIterator[KafkaRelay]:
    relay = KafkaRelay(world.database, Publisher(url_of(broker)))
    task = asyncio.create_task(relay.agent().run())
    try:
        yield relay
    finally:
        task.cancel()
        await asyncio.wait([task])


def of(reader: Reader, ids: list[str]) -> list[Seen]:
    """What is about these reservations."""
    return [each for each in reader.of(EVENTS) if each.event["subject"] in ids]


async def test_what_happens_arrives_in_order_under_its_sku(world: OutboxWorld, broker: Broker) -> None:
    ids = await world.live(50)
    async with reading(broker) as reader, relaying(world, broker):
        await reader.until(lambda: len(of(reader, ids)) >= 150)
        last = await world.database.read(latest_seq)

        async def is_advanced() -> bool:
            return await world.database.read(lambda c: stream_lag(c, KAFKA)) == (0, None)

        await world.until(is_advanced)
        assert last > 0
    seen = of(reader, ids)
    assert len(seen) == 150
    for id_ in ids:
        assert [each.type for each in seen if each.event["subject"] == id_] == LIFE
    assert {each.key for each in seen} == {SKU}
    assert len({each.partition for each in seen}) == 1


async def test_a_second_relay_stands_by_and_takes_over_at_once_when_the_first_stops(
    world: OutboxWorld, broker: Broker
) -> None:
    first = await world.live(5)
    async with reading(broker) as reader:
        async with relaying(world, broker):
            await reader.until(lambda: len(of(reader, first)) >= 15)
            standby = KafkaRelay(world.database, Publisher(url_of(broker)))
            assert not (await standby.pass_once()).is_ours
        second = await world.live(5)
        async with relaying(world, broker):
            await reader.until(lambda: len(of(reader, second)) >= 15)
    assert len(of(reader, [*first, *second])) == 30


async def test_a_publisher_that_froze_cannot_publish_once_another_took_over(broker: Broker) -> None:
    name, url = f"test-{secrets.token_hex(4)}", url_of(broker)
    frozen, successor = Publisher(url), Publisher(url)
    async with reading(broker) as reader:
        await frozen.open(name)
        await frozen.publish([Message(EVENTS, name, '{"id": "1", "type": "t"}')])
        await successor.open(name)
        with pytest.raises(Unavailable):
            await frozen.publish([Message(EVENTS, name, '{"id": "2", "type": "t"}')])
        await successor.publish([Message(EVENTS, name, '{"id": "3", "type": "t"}')])
        await reader.until(lambda: "3" in [each.id for each in reader.by_key(EVENTS).get(name, ())])
    assert [each.id for each in reader.by_key(EVENTS)[name]] == ["1", "3"]


async def test_while_no_broker_answers_events_wait_and_nothing_else_does(world: OutboxWorld, broker: Broker) -> None:
    async with reading(broker) as reader, relaying(world, broker):
        before = await world.live(5)
        await reader.until(lambda: len(of(reader, before)) >= 15)
        broker.kill()
        during = await world.live(5)
        assert (await world.database.read(lambda c: stream_lag(c, KAFKA)))[0] > 0
        await broker.restart()
        after = await world.live(5)
        await reader.until(lambda: len({each.id for each in of(reader, [*during, *after])}) >= 30)
    seen = first_times(of(reader, [*before, *during, *after]))
    for id_ in [*before, *during, *after]:
        assert [each.type for each in seen if each.event["subject"] == id_] == LIFE
