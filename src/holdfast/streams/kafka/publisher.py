"""Publishes messages in transactions: each batch completely or not at all, once, in order.

The model. There is one transactional ID per ledger. Opening a publisher under it ends the transaction that an earlier
one left open, and fences that publisher off: a process that froze, lost its lease and thaws cannot publish any more,
whatever is still in its buffers. So a consumer with `read_committed` (the default of librdkafka, not of Java) sees the
messages of a key in order.

When it fails. After any error the publisher cannot be used any more. The next one aborts what it left open.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from holdfast.errors import Unavailable
from holdfast.ledger.events.stream_messages import Message
from holdfast.streams.kafka.client import configuration, create_topics, in_slices, library
from holdfast.streams.kafka.kafka_url import KafkaUrl

OPEN_S = 5.0
COMMIT_S = 8.0
# An open transaction of a dead process hides later messages until then, unless a new publisher takes over earlier.
TRANSACTION_MS = 10_000
CONTENT_TYPE = [("content-type", b"application/cloudevents+json; charset=UTF-8")]


class Publisher:
    def __init__(self, url: KafkaUrl) -> None:
        self._url = url
        self._producer: Any = None
        self._has_topics = False

    @property
    def is_open(self) -> bool:
        return self._producer is not None

    async def open(self, transactional_id: str) -> None:
        """Fences off the previous publisher with this name."""
        await self.close()
        if not self._has_topics:
            await create_topics(self._url)
            self._has_topics = True
        options = {
            "transactional_id": transactional_id,
            "transaction_timeout_ms": TRANSACTION_MS,
            "enable_idempotence": True,
            "acks": "all",
            "compression_type": "lz4",
            "linger_ms": 5,
        }
        producer = library().Producer(configuration(self._url, **options))
        await in_slices(producer.init_transactions, OPEN_S, "no publisher could be opened")
        self._producer = producer

    async def publish(self, messages: Sequence[Message]) -> None:
        """Publish all of the messages durably, or raise."""
        producer = self._producer
        try:
            await asyncio.to_thread(_send, producer, messages)
            await in_slices(producer.commit_transaction, COMMIT_S, "a batch could not be published")
        except BaseException:
            self._producer = None
            raise

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(library().KafkaException):
                await asyncio.to_thread(producer.abort_transaction, 0.1)


def _send(producer: Any, messages: Sequence[Message]) -> None:
    kafka = library()
    try:
        producer.begin_transaction()
        for message in messages:
            producer.produce(message.topic, message.body, message.key, headers=CONTENT_TYPE)
    except (kafka.KafkaException, BufferError) as exc:
        raise Unavailable(f"Kafka: a batch could not be published: {exc}") from exc
