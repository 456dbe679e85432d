"""Publishes events, settlement intents and pool updates from the ledger to Kafka.

The model. Events are the outbox: each was written in the transaction that caused it. One process publishes at a time:
it holds the lease of the stream's row, and Kafka fences off the previous publisher (`publisher.py`). A pass reads the
events after the stream's position up to the horizon, publishes them in one transaction and then advances the position.
So no event is skipped, and a crash in between publishes a batch a second time: at-least-once delivery, with the same
IDs.

When it fails. While no broker responds, the position stays and events wait in the ledger; sales are not delayed. A
process that dies leaves a lease that expires.
"""

import secrets
from functools import partial
from time import monotonic

from msgspec import Struct
from sqlalchemy import Connection

from holdfast.ledger.chain.horizon import Horizon, Seen, horizon_queries
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.dead_letters import note_told
from holdfast.ledger.events.event_facts import FindTraces
from holdfast.ledger.events.stream_messages import Batch, StreamMessages
from holdfast.ledger.events.streams import KAFKA, Stream, advance_stream, find_stream, release_stream, take_stream
from holdfast.ledger.mark.mark import read_incarnations
from holdfast.runtime import metrics
from holdfast.runtime.agent import Agent
from holdfast.streams.kafka.publisher import Publisher

PASS_INTERVAL_S = 0.1
# Pause while another process publishes.
STANDBY_S = 1.0
LEASE_MS = 10_000
# Renewed when less than this is left.
RENEW_S = 5.0
# Between two checks of parked items.
LETTERS_INTERVAL_S = 2.0


class Published(Struct, frozen=True):
    count: int = 0
    is_ours: bool = True
    has_more: bool = False


class KafkaRelay:
    def __init__(self, database: Database, publisher: Publisher, find_traces: FindTraces | None = None) -> None:
        self._database = database
        self._publisher = publisher
        self._holder = secrets.token_hex(8)
        self._fence: int | None = None
        self._leased_until = self._letters_at = 0.0
        self._messages = StreamMessages(database.dialect_name, find_traces)
        self._horizon, self._seen = Horizon(), horizon_queries(database.dialect_name)

    def agent(self) -> Agent[Published]:
        return Agent("kafka_relay", self.pass_once, PASS_INTERVAL_S, rest_s=_rest_s, close=self._release)

    async def pass_once(self) -> Published:
        """Publish the next batch."""
        if monotonic() > self._leased_until - RENEW_S and not await self._take():
            return Published(is_ours=False)
        if not self._publisher.is_open:
            await self._publisher.open(await self._database.read(_transactional_id))
        # Only after opening the publisher: until then the previous one may have published and advanced.
        seen, stream = await self._database.read(self._look)
        if stream.fence != self._fence:
            return await self._lose()
        upto = self._horizon.reached(seen)
        batch = await self._database.read(partial(self._read, stream, upto, self._looks_at_letters()))
        if not batch.messages and batch.position == stream.position:
            return Published()
        if batch.messages:
            await self._publisher.publish(batch.messages)
            for message in batch.messages:
                metrics.STREAM_PUBLISHED.labels(message.topic).inc()
        if not await self._database.write(partial(self._advance, batch)):
            return await self._lose()
        return Published(len(batch.messages), has_more=batch.has_more)

    async def _take(self) -> bool:
        began = monotonic()
        fence = await self._database.write(self._take_lease)
        if fence is None:
            await self._lose()
            return False
        if fence != self._fence:
            # Another process held the lease meanwhile and may have begun a transaction: fence it off.
            await self._publisher.close()
        self._fence, self._leased_until = fence, began + LEASE_MS / 1000
        return True

    async def _lose(self) -> Published:
        self._fence, self._leased_until = None, 0.0
        await self._publisher.close()
        return Published(is_ours=False)

    async def _release(self) -> None:
        """Lets the next process start without waiting for the lease to expire."""
        await self._publisher.close()
        if self._fence is not None:
            await self._database.write(partial(self._release_lease, self._fence))

    def _take_lease(self, connection: Connection) -> int | None:
        now = self._database.now_ms(connection)
        return take_stream(connection, KAFKA, self._holder, now, now + LEASE_MS)

    def _release_lease(self, fence: int, connection: Connection) -> None:
        release_stream(connection, KAFKA, fence, self._database.now_ms(connection))

    def _look(self, connection: Connection) -> tuple[Seen, Stream]:
        return self._seen.look(connection, self._horizon.known), find_stream(connection, KAFKA)

    def _looks_at_letters(self) -> bool:
        if monotonic() < self._letters_at:
            return False
        self._letters_at = monotonic() + LETTERS_INTERVAL_S
        return True

    def _read(self, stream: Stream, upto: int, letters: bool, connection: Connection) -> Batch:
        now = self._database.now_ms(connection) if letters else None
        return self._messages.read(connection, stream, upto, now)

    def _advance(self, batch: Batch, connection: Connection) -> bool:
        assert self._fence is not None
        now = self._database.now_ms(connection)
        note_told(connection, batch.letters, now)
        return advance_stream(connection, KAFKA, self._fence, batch.position, batch.update_number, now)


def _transactional_id(connection: Connection) -> str:
    """One per ledger: two ledgers that share a cluster must not fence each other off."""
    history = read_incarnations(connection)
    return f"holdfast-relay-{history[0].incarnation if history else 'new'}"


def _rest_s(published: Published) -> float:
    if not published.is_ours:
        return STANDBY_S
    return 0.0 if published.has_more else PASS_INTERVAL_S
