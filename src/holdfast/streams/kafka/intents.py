"""Consumes settlement intents, as a member of a consumer group.

The model. Each worker has some of the partitions. A message names a purchase, which is passed to `settle`. Its offset
is committed once that has returned, that is after the ledger's commit, and only up to the first unfinished message of
its partition. So a worker that dies loses no purchase: the next one receives the messages after the last commit again,
and the ledger knows which of them are settled. Partitions move one by one (cooperative rebalancing), while the others
continue.

Backpressure. With `IN_FLIGHT_MAX` purchases in progress the partitions are paused. Polling continues, so that the group
does not consider the worker dead. The partitions are resumed when half of the purchases are done.

On failure. While the ledger does not respond, purchases are retried, and nothing is committed. A message that names no
purchase is parked in the ledger for an operator; the ledger's own sweep settles any purchase it referred to. Commits
are not awaited, and closing waits at most `CLOSE_S`: a broker that does not respond must not keep a process alive.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Annotated, Any

import msgspec
import structlog
from msgspec import Meta, Struct

from holdfast.errors import EngineError, Unavailable
from holdfast.ledger.events.stream_messages import INTENTS
from holdfast.runtime import metrics
from holdfast.runtime.agent import Agent
from holdfast.runtime.backoff import exponential_ms
from holdfast.streams.kafka.client import configuration, create_topics, library
from holdfast.streams.kafka.kafka_url import KafkaUrl
from holdfast.streams.kafka.offsets import Offsets

log = structlog.get_logger()

GROUP = "holdfast-settlement"
POLL_MAX = 500
POLL_S = 0.1
# More than a drop sells at once: if the purchases of one product fill it, others wait behind them in their partitions.
IN_FLIGHT_MAX = 20_000
SESSION_MS = 10_000
CLOSE_S = 2.0
FIRST_RETRY_MS, LONGEST_RETRY_MS = 100, 2_000

Settle = Callable[[str, str], Awaitable[None]]
Park = Callable[[str, str, bytes], Awaitable[None]]


# Characters that no ID has and a database may refuse: such a message would be retried forever.
_Id = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+\Z")]


class _Data(Struct):
    purchase_id: _Id
    sku_id: _Id


class _Intent(Struct):
    data: _Data


_decode = msgspec.json.Decoder(_Intent).decode


class IntentConsumer:
    def __init__(self, url: KafkaUrl, settle: Settle, park: Park, group: Callable[[], Awaitable[str]]) -> None:
        """`settle` gets a SKU and a reservation; `park` a message's ID, the problem with it, and its body. `group`
        names the consumer group."""
        self._url, self._settle, self._park, self._group = url, settle, park, group
        self._consumer: Any = None
        self._offsets = Offsets()
        self._in_flight: set[asyncio.Task[None]] = set()
        self._is_paused = False

    def agent(self) -> Agent[int]:
        return Agent("kafka_settler", self.pass_once, POLL_S, rest_s=lambda _: 0.0, jitter=0.0, close=self.close)

    async def pass_once(self) -> int:
        """Take the next messages. Returns how many."""
        if self._consumer is None:
            await self._open()
        messages = await asyncio.to_thread(self._consumer.consume, POLL_MAX, POLL_S)
        errors = [error for message in messages if (error := message.error()) is not None and not _passes(error)]
        for message in messages:
            if message.error() is None:
                self._take(message)
        self._apply_pressure()
        self._commit(self._consumer)
        if errors:
            log.warning("intents_not_read", errors=sorted({error.str() for error in errors}))
            raise Unavailable(f"Kafka: {errors[0].str()}")
        return len(messages)

    async def close(self) -> None:
        for task in self._in_flight:
            task.cancel()
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await _close(consumer)

    async def _open(self) -> None:
        await create_topics(self._url)
        options = {
            "group_id": await self._group(),
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
            "partition_assignment_strategy": "cooperative-sticky",
            "session_timeout_ms": SESSION_MS,
        }
        consumer = library().Consumer(configuration(self._url, **options) | {"on_commit": self._on_commit})
        consumer.subscribe([INTENTS], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)
        self._consumer = consumer

    # --- the group, in the polling thread

    def _on_assign(self, _consumer: Any, _partitions: list[Any]) -> None:
        # New partitions are not paused; the next pass pauses all of them, if necessary.
        self._is_paused = False

    def _on_revoke(self, consumer: Any, partitions: list[Any]) -> None:
        """Commit finished work, so that the next worker need not repeat it."""
        self._commit(consumer)
        self._on_lost(consumer, partitions)

    def _on_lost(self, _consumer: Any, partitions: list[Any]) -> None:
        self._offsets.forget([each.partition for each in partitions])

    def _on_commit(self, error: Any, partitions: list[Any]) -> None:
        """A failed commit is included in the next one; until then the messages may be read again, and are found
        settled."""
        failed = [each for each in partitions if error is not None or each.error is not None]
        self._offsets.give_back({each.partition: each.offset for each in failed if each.offset >= 0})

    # --- messages

    def _take(self, message: Any) -> None:
        partition, tracked = message.partition(), self._offsets.begin(message.partition(), message.offset())
        task = asyncio.create_task(self._until_done(partial(self._work_on, message)))
        self._in_flight.add(task)
        task.add_done_callback(partial(self._finished, partition, tracked))

    async def _work_on(self, message: Any) -> None:
        body = message.value() or b""
        try:
            purchase = _decode(body).data
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            name = f"{message.topic()}/{message.partition()}/{message.offset()}"
            log.warning("intent_unreadable", message_id=name, error=str(exc))
            await self._park(name, f"unreadable: {exc}", body)
            metrics.INTENTS.labels("unreadable").inc()
        else:
            await self._settle(purchase.sku_id, purchase.purchase_id)
            metrics.INTENTS.labels("settled").inc()

    async def _until_done(self, work: Callable[[], Awaitable[None]]) -> None:
        attempts = 0
        while True:
            try:
                return await work()
            except EngineError:
                attempts += 1
                await asyncio.sleep(exponential_ms(attempts, FIRST_RETRY_MS, LONGEST_RETRY_MS) / 1000)

    def _finished(self, partition: int, tracked: Any, task: "asyncio.Task[None]") -> None:
        self._in_flight.discard(task)
        if task.cancelled():
            return
        if (exc := task.exception()) is not None:
            # A defect. The sweep retries the purchase and parks it in the end; the messages behind it continue.
            log.error("intent_failed", exc_info=exc)
            metrics.INTENTS.labels("failed").inc()
        self._offsets.finish(partition, tracked)

    def _apply_pressure(self) -> None:
        count = len(self._in_flight)
        if not self._is_paused and count >= IN_FLIGHT_MAX:
            self._consumer.pause(self._consumer.assignment())
            self._is_paused = True
        elif self._is_paused and count <= IN_FLIGHT_MAX // 2:
            self._consumer.resume(self._consumer.assignment())
            self._is_paused = False

    def _commit(self, consumer: Any) -> None:
        """Starts a commit; `_on_commit` gets its outcome."""
        reached, kafka = self._offsets.take(), library()
        if not reached:
            return
        offsets = [kafka.TopicPartition(INTENTS, partition, offset) for partition, offset in reached.items()]
        try:
            consumer.commit(offsets=offsets, asynchronous=True)
        except kafka.KafkaException:
            self._offsets.give_back(reached)


def _passes(error: Any) -> bool:
    """Whether the library recovers from it on its own."""
    return bool(error.retriable()) or error.code() == library().KafkaError._PARTITION_EOF  # noqa: SLF001


async def _close(consumer: Any) -> None:
    """Leave the group. The thread is a daemon, so that the process can end while no broker answers."""
    loop, closed = asyncio.get_running_loop(), asyncio.Event()

    def close() -> None:
        with suppress(library().KafkaException, RuntimeError):
            consumer.close()
        with suppress(RuntimeError):  # The loop is closed already.
            loop.call_soon_threadsafe(closed.set)

    Thread(target=close, name="kafka-close", daemon=True).start()
    with suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_S):
            await closed.wait()
