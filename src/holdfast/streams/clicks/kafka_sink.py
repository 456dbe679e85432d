"""Clicks to Kafka, topic `holdfast.clicks`: JSON, keyed by visitor. Clicks that do not fit into the client's buffer are
dropped: nothing waits for the broker."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.streams.clicks.click import Click
from holdfast.streams.kafka.client import configuration, create_topics, library
from holdfast.streams.kafka.kafka_url import KafkaUrl

CLICKS = "holdfast.clicks"
CLOSE_S = 1.0
BUFFERED_MAX = 100_000

_encode = msgspec.json.Encoder().encode


class KafkaSink:
    def __init__(self, url: KafkaUrl) -> None:
        options = {"queue_buffering_max_messages": BUFFERED_MAX, "acks": 1, "compression_type": "lz4", "linger_ms": 100}
        self._url, self._has_topic = url, False
        self._producer: Any = library().Producer(configuration(url, **options))

    def write(self, clicks: Sequence[Click]) -> None:
        if not self._has_topic:
            # Runs in the recorder's thread, which has no event loop.
            asyncio.run(create_topics(self._url, [CLICKS]))
            self._has_topic = True
        for click in clicks:
            self._producer.produce(CLICKS, _encode(click), click.visitor or None)
        self._producer.poll(0)

    def close(self) -> None:
        self._producer.flush(CLOSE_S)
