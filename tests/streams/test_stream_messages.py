"""What is published of the ledger, in which order and under which keys; and who may publish."""

from itertools import pairwise
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from outbox_world import LIFE, SKU, OutboxWorld
from sqlalchemy import Connection, update

from holdfast.bootstrap.lag import LagGuard, LagReader
from holdfast.bootstrap.stores import sql_engine
from holdfast.domain.stock.command import Move, Provision, Transition
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events import stream_messages
from holdfast.ledger.events.event_schemas import event_schema
from holdfast.ledger.events.stream_messages import EVENTS, INTENTS, Batch, StreamMessages
from holdfast.ledger.events.streams import (
    KAFKA,
    Stream,
    advance_stream,
    find_stream,
    release_stream,
    stream_lag,
    take_stream,
)
from holdfast.ledger.events.webhooks import latest_seq
from holdfast.ledger.tables.stock import pools
from holdfast.testing.states import reserve
from holdfast.webhooks.pool_updates import PoolUpdates


@pytest.fixture
async def world(database: Database) -> OutboxWorld:
    world = OutboxWorld(database)
    await world.stock()
    return world


async def read(world: OutboxWorld, stream: Stream = Stream()) -> Batch:  # noqa: B008 - immutable
    messages = StreamMessages(world.database.dialect_name)
    return await world.database.read(lambda c: messages.read(c, stream, latest_seq(c)))


def bodies(batch: Batch, topic: str) -> list[dict[str, Any]]:
    """Every one is as its schema says."""
    found = [msgspec.json.decode(message.body) for message in batch.messages if message.topic == topic]
    for body in found:
        jsonschema_rs.validate(event_schema(body["type"]), body, validate_formats=True)
    return found


async def test_events_are_published_in_their_order_under_their_sku(world: OutboxWorld) -> None:
    await world.gate.apply("other", [Provision(5)])
    [first, second] = await world.live(2)
    batch = await read(world)
    events = [(body["subject"], body["type"]) for body in bodies(batch, EVENTS)]
    assert [kind for subject, kind in events if subject == first] == LIFE
    assert [kind for subject, kind in events if subject == second] == LIFE
    assert {message.key for message in batch.messages} == {SKU}
    assert len({body["id"] for body in bodies(batch, EVENTS)}) == len(events)


async def test_a_shard_has_the_key_of_its_sku(world: OutboxWorld) -> None:
    await world.gate.apply("big/0of2", [Provision(5), reserve("rsv_1_big", "a")])
    batch = await read(world)
    assert {message.key for message in batch.messages} == {"big"}


async def test_a_reservation_that_must_be_paid_is_an_intent_of_its_buyer(world: OutboxWorld) -> None:
    id_ = f"rsv_{1:032}_{SKU}"
    await world.gate.apply(SKU, [reserve(id_, "ann")])
    await world.gate.apply(SKU, [Move(Transition.SETTLE, id_)])
    assert bodies(await read(world), INTENTS) == [], "nobody settles what is in no sale"
    await world.database.write(lambda c: c.execute(update(pools).values(sale_id="drop")))
    batch = await read(world)
    [message] = [message for message in batch.messages if message.topic == INTENTS]
    [intent] = bodies(batch, INTENTS)
    assert (message.key, intent["type"], intent["subject"]) == ("ann", "settlement.requested", id_)
    assert intent["data"] == {
        "purchase_id": id_,
        "sku_id": SKU,
        "sale_id": "drop",
        "buyer_id": "ann",
        "quantity": 1,
    }


async def test_a_long_history_is_read_in_parts_without_a_gap(
    world: OutboxWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_messages, "MESSAGES_MAX", 7)
    monkeypatch.setattr(stream_messages, "WINDOW", 10)
    before = await world.database.read(latest_seq)
    await world.live(20)
    last = await world.database.read(latest_seq)
    stream, ids = Stream(before), []
    while stream.position < last:
        batch = await read(world, stream)
        ids += [body["id"] for body in bodies(batch, EVENTS)]
        assert batch.position > stream.position
        stream = Stream(batch.position, batch.update_number)
    assert len(ids) == len(set(ids)) == 60
    numbers = [int(id_.rpartition("_")[2]) for id_ in ids]
    assert all(before < after for before, after in pairwise(numbers))


async def test_the_counts_of_pools_are_published_too_and_only_the_latest(world: OutboxWorld) -> None:
    updates = PoolUpdates(world.database, has_stream=True)
    assert await updates.pass_once() == 1
    batch = await read(world)
    assert [body["data"]["sold"] for body in bodies(batch, EVENTS) if body["type"] == "pool.updated"] == [0]
    again = await read(world, Stream(batch.position, batch.update_number))
    assert (again.messages, again.update_number) == ([], batch.update_number)


# --- who publishes


async def test_one_process_publishes_at_a_time_and_the_next_one_fences_it_off(database: Database) -> None:
    def take(connection: Connection, holder: str, now: int) -> int | None:
        return take_stream(connection, KAFKA, holder, now, now + 10)

    assert await database.write(lambda c: take(c, "a", 0)) == 1
    assert await database.write(lambda c: take(c, "a", 5)) == 1, "a renewal"
    assert await database.write(lambda c: take(c, "b", 14)) is None, "it is another's until 15"
    assert await database.write(lambda c: take(c, "b", 15)) == 2
    assert not await database.write(lambda c: advance_stream(c, KAFKA, 1, 100, 0, 16)), "its lease is over"
    assert await database.write(lambda c: advance_stream(c, KAFKA, 2, 50, 7, 16))
    assert await database.read(lambda c: find_stream(c, KAFKA)) == Stream(50, 7, 2)
    await database.write(lambda c: release_stream(c, KAFKA, 1, 17))
    assert await database.write(lambda c: take(c, "c", 17)) is None, "only its holder releases it"
    await database.write(lambda c: release_stream(c, KAFKA, 2, 17))
    assert await database.write(lambda c: take(c, "c", 17)) == 3


async def test_the_lag_is_what_was_not_published_yet(world: OutboxWorld) -> None:
    await world.live()
    last = await world.database.read(latest_seq)
    assert (await world.database.read(lambda c: stream_lag(c, KAFKA)))[0] == last
    await world.database.write(lambda c: take_stream(c, KAFKA, "a", 0, 10))
    await world.database.write(lambda c: advance_stream(c, KAFKA, 1, last - 1, 0, 0))
    assert (await world.database.read(lambda c: stream_lag(c, KAFKA)))[0] == 1


def lag_guard(world: OutboxWorld, *, has_intents: bool) -> LagGuard:
    engine = sql_engine(world.database)
    return LagGuard(LagReader(world.database, engine, has_kafka=True, has_intents=has_intents), 2)


@pytest.mark.parametrize("has_intents", [False, True])
async def test_events_that_are_not_in_kafka_stop_sales_only_where_payments_wait_for_them(
    world: OutboxWorld, *, has_intents: bool
) -> None:
    guard = lag_guard(world, has_intents=has_intents)
    await guard.pass_once()
    await world.live(3)
    await guard.pass_once()
    assert guard.is_shedding is has_intents
    last = await world.database.read(latest_seq)
    await world.database.write(lambda c: take_stream(c, KAFKA, "a", 0, 10))
    await world.database.write(lambda c: advance_stream(c, KAFKA, 1, last, 0, 0))
    await guard.pass_once()
    assert not guard.is_shedding


async def test_the_history_of_a_ledger_that_is_given_to_kafka_stops_no_sale(world: OutboxWorld) -> None:
    await world.live(3)
    guard = lag_guard(world, has_intents=True)
    await guard.pass_once()
    assert not guard.is_shedding
