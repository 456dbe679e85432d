"""What the consumer of intents makes of messages, errors and a broker that does not answer."""

import asyncio
from threading import Event
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from holdfast.errors import Unavailable
from holdfast.ledger.events.stream_messages import INTENTS
from holdfast.streams.kafka import intents
from holdfast.streams.kafka.intents import IntentConsumer
from holdfast.streams.kafka.kafka_url import parse_kafka_url

GOOD = b'{"data": {"purchase_id": "rsv_1", "sku_id": "lamp"}}'


class Message:
    def __init__(self, offset: int, body: bytes = b"", error: int | None = None) -> None:
        self._offset, self._body, self._error = offset, body, None if error is None else KafkaError(error)

    def error(self) -> KafkaError | None:
        return self._error

    def value(self) -> bytes:
        return self._body

    def topic(self) -> str:
        return INTENTS

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset


class Client:
    """Kafka's client, with messages to give; it notes what is committed."""

    def __init__(self, *messages: Message) -> None:
        self._messages = list(messages)
        self.commits: list[tuple[int, bool]] = []
        self.may_close = Event()

    def consume(self, _count: int, _timeout: float) -> list[Message]:
        messages, self._messages = self._messages, []
        return messages

    def commit(self, *, offsets: list[Any], asynchronous: bool) -> None:
        self.commits += [(each.offset, asynchronous) for each in offsets]

    def close(self) -> None:
        self.may_close.wait(30)


class Site:
    def __init__(self, *messages: Message) -> None:
        self.settled: list[str] = []
        self.parked: list[str] = []
        self.client = Client(*messages)
        self.consumer = IntentConsumer(parse_kafka_url("kafka://localhost:9"), self._settle, self._park, self._name)
        self.consumer._consumer = self.client

    async def _settle(self, _sku_id: str, purchase_id: str) -> None:
        self.settled.append(purchase_id)

    async def _park(self, message_id: str, _reason: str, _body: bytes) -> None:
        self.parked.append(message_id)

    async def _name(self) -> str:
        return "group"

    async def until_done(self) -> None:
        await asyncio.gather(*self.consumer._in_flight)


@pytest.mark.parametrize("purchase_id", [r"a\u0000", r"a\n", "", "a" * 501])
async def test_an_intent_with_an_id_that_cannot_be_one_is_parked(purchase_id: str) -> None:
    body = f'{{"data": {{"purchase_id": "{purchase_id}", "sku_id": "lamp"}}}}'.encode()
    site = Site(Message(0, body), Message(1, GOOD))
    await site.consumer.pass_once()
    await site.until_done()
    assert (site.parked, site.settled) == ([f"{INTENTS}/0/0"], ["rsv_1"])


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART])
async def test_an_error_that_does_not_pass_is_raised_after_the_rest_was_taken(code: int) -> None:
    site = Site(Message(0, error=code), Message(1, GOOD))
    with pytest.raises(Unavailable):
        await site.consumer.pass_once()
    await site.until_done()
    assert site.settled == ["rsv_1"]


async def test_the_end_of_a_partition_is_no_error() -> None:
    site = Site(Message(0, error=KafkaError._PARTITION_EOF))
    assert await site.consumer.pass_once() == 1


async def test_commits_are_not_waited_for_and_made_again_if_they_fail() -> None:
    site = Site(Message(0, GOOD))
    await site.consumer.pass_once()
    await site.until_done()
    await site.consumer.pass_once()
    assert site.client.commits == [(1, True)]
    site.consumer._on_commit(KafkaError(KafkaError._TIMED_OUT), [SimpleNamespace(partition=0, offset=1, error=None)])
    await site.consumer.pass_once()
    assert site.client.commits == [(1, True)] * 2


async def test_a_failed_commit_of_a_partition_that_was_lost_is_not_made_again() -> None:
    site = Site(Message(0, GOOD))
    await site.consumer.pass_once()
    await site.until_done()
    lost = SimpleNamespace(partition=0, offset=1, error=None)
    site.consumer._on_revoke(site.client, [lost])
    site.consumer._on_commit(KafkaError(KafkaError._TIMED_OUT), [lost])
    await site.consumer.pass_once()
    assert site.client.commits == [(1, True)]


async def test_closing_does_not_wait_for_a_broker_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intents, "CLOSE_S", 0.05)
    site, began = Site(), monotonic()
    await site.consumer.close()
    assert monotonic() - began < 5
    site.client.may_close.set()
