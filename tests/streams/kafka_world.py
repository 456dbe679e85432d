"""A real broker, and a consumer that reads what was published, as other systems would."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition
from msgspec import Struct

from holdfast.lab.load.kafka_broker import Broker
from holdfast.streams.kafka.client import create_topics
from holdfast.streams.kafka.kafka_url import KafkaUrl, parse_kafka_url
from holdfast.streams.kafka.topics import TOPICS

_groups = itertools.count(1)
PARTITIONS = 4


class Seen(Struct, frozen=True):
    topic: str
    key: str
    partition: int
    offset: int
    event: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.event["id"])

    @property
    def type(self) -> str:
        return str(self.event["type"])


def url_of(broker: Broker) -> KafkaUrl:
    return parse_kafka_url(f"{broker.url}?partitions={PARTITIONS}")


class Reader:
    """Reads every partition of the topics from now on, which tests share; what was not committed is hidden."""

    def __init__(self, broker: Broker, *topics: str) -> None:
        settings = {
            "bootstrap.servers": broker.address,
            "group.id": f"reader-{next(_groups)}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "topic.metadata.refresh.interval.ms": 500,
            "log_level": 0,
        }
        self._consumer = Consumer(settings)
        self._consumer.assign(
            [self._end_of(topic, number) for topic in topics or TOPICS for number in range(PARTITIONS)]
        )
        self.seen: list[Seen] = []

    def _end_of(self, topic: str, number: int) -> TopicPartition:
        until = monotonic() + 30
        while True:
            try:
                _, end = self._consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)
            except KafkaException:  # A topic that was just created has no leader yet.
                if monotonic() > until:
                    raise
            else:
                return TopicPartition(topic, number, end)

    def close(self) -> None:
        self._consumer.close()

    def of(self, topic: str) -> list[Seen]:
        return [each for each in self.seen if each.topic == topic]

    def by_key(self, topic: str) -> dict[str, list[Seen]]:
        found: dict[str, list[Seen]] = {}
        for each in self.of(topic):
            found.setdefault(each.key, []).append(each)
        return found

    async def until(self, is_enough: Callable[[], bool], within_s: float = 90.0) -> None:
        async with asyncio.timeout(within_s):
            while not is_enough():
                for message in await asyncio.to_thread(self._consumer.consume, 500, 0.2):
                    if message.error() is None:
                        self._note(message)

    def _note(self, message: Any) -> None:
        event = msgspec.json.decode(message.value())
        key = message.key().decode()
        self.seen.append(Seen(message.topic(), key, message.partition(), message.offset(), event))


@asynccontextmanager
async def reading(broker: Broker, *topics: str) -> AsyncIterator[Reader]:
    await create_topics(url_of(broker))
    reader = await asyncio.to_thread(Reader, broker, *topics)
    try:
        yield reader
    finally:
        await asyncio.to_thread(reader.close)


def first_times(seen: list[Seen]) -> list[Seen]:
    """Without repeats, which at-least-once delivery allows: a consumer recognises them by their ID."""
    ids: set[str] = set()
    return [each for each in seen if not (each.id in ids or ids.add(each.id))]  # type: ignore[func-returns-value]
