"""Parked items go to the dead-letter topic, and unreadable messages become parked items."""

from typing import Any

import jsonschema_rs
import msgspec
import pytest
from outbox_world import OutboxWorld
from sqlalchemy import update

from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.dead_letters import DEAD_LETTERS, note_told, park_message
from holdfast.ledger.events.event_schemas import event_schema
from holdfast.ledger.events.stream_messages import StreamMessages
from holdfast.ledger.events.streams import Stream
from holdfast.ledger.events.webhooks import latest_seq
from holdfast.ledger.tables.webhooks import deliveries
from holdfast.settlement.parked import NotParked, Parked, count_parked

NOW = 1_000


class Topic:
    """Reads as the relay does, and notes what was told."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._messages = StreamMessages(database.dialect_name)

    async def news(self) -> list[tuple[str, dict[str, Any]]]:
        """The key and the event of each message."""
        stream = await self._database.read(lambda c: Stream(latest_seq(c), 2**60))
        batch = await self._database.read(lambda c: self._messages.read(c, stream, stream.position, NOW))
        await self._database.write(lambda c: note_told(c, batch.letters, NOW))
        found = [(m.key, msgspec.json.decode(m.body)) for m in batch.messages if m.topic == DEAD_LETTERS]
        for _, event in found:
            jsonschema_rs.validate(event_schema(event["type"]), event, validate_formats=True)
        return found


@pytest.fixture
def topic(database: Database) -> Topic:
    return Topic(database)


def parked_of(database: Database) -> Parked:
    return Parked(database, None, {})  # type: ignore[arg-type]


async def test_what_is_parked_is_told_once_and_so_is_that_it_was_retried(database: Database, topic: Topic) -> None:
    world = OutboxWorld(database)
    await world.stock()
    webhook = await world.add("http://127.0.0.1:9/", "reservation.created")
    await world.live()
    await world.relay_all()
    [delivery] = await world.log(webhook)
    assert await topic.news() == []
    parked = update(deliveries).values(state="parked", reason="http_500", attempts=12)
    await database.write(lambda c: c.execute(parked))
    [(key, event)] = await topic.news()
    assert (key, event["type"]) == (f"delivery:{delivery.delivery_id}", "item.parked")
    assert (event["data"]["reason"], event["data"]["attempts"]) == ("http_500", 12)
    assert await topic.news() == []
    await parked_of(database).retry(key)
    [(again, released)] = await topic.news()
    assert (again, released["type"]) == (key, "item.released")
    assert await topic.news() == []


async def test_a_message_that_nobody_can_read_is_parked_once_told_and_can_only_be_dropped(
    database: Database, topic: Topic
) -> None:
    for _ in range(2):
        await database.write(lambda c: park_message(c, "holdfast.intents/3/17", "unreadable", b"\xff\0{", NOW))
    [item], _ = await parked_of(database).items()
    assert (item.parked_id, item.kind, item.reason) == ("message:holdfast.intents/3/17", "message", "unreadable")
    assert (await database.read(count_parked))["message"] == 1
    [(key, _)] = await topic.news()
    assert key == item.parked_id
    with pytest.raises(NotParked):
        await parked_of(database).retry(key)
    await parked_of(database).drop(key, "ann")
    assert await parked_of(database).items() == ([], False)
    [(_, released)] = await topic.news()
    assert released["type"] == "item.released"
    with pytest.raises(NotParked):
        await parked_of(database).drop(key, "ann")
