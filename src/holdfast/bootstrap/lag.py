"""How far background work is behind, read from the stores on demand.

Reports of the agents are not enough: where no worker runs, nothing is reported, and everything looks done. One read
serves all callers within a second.
"""

import asyncio
from time import monotonic

import structlog
from msgspec import Struct
from sqlalchemy import Connection

from holdfast.gate.engine import Engine
from holdfast.gate.lag import Lag
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.deliveries import backlog as delivery_backlog
from holdfast.ledger.events.outbox import unrelayed
from holdfast.ledger.events.streams import KAFKA, find_stream, stream_lag
from holdfast.ledger.events.webhooks import latest_seq
from holdfast.ledger.money.settle_batch import backlog as settlement_backlog
from holdfast.ledger.stock.queries import pool_queries
from holdfast.runtime.agent import Agent

log = structlog.get_logger()

KEPT_S = 1.0
# New purchases begin again once the backlog is this much below its limit.
RESUME_PART = 0.8


class Lags(Struct, frozen=True):
    as_of: int
    # Decisions in Redis that the ledger does not have yet. Always nothing where the ledger is the gate.
    journal: Lag
    settlement: Lag
    # Events that no delivery was made of, and deliveries that were not made.
    webhooks: Lag
    # Holds past their deadline whose units are not back.
    sweeper: Lag
    # Events that were not published to Kafka. Always nothing without it.
    streams: Lag = Lag()
    journal_by_pool: dict[str, Lag] = {}


class LagReader:
    def __init__(
        self, database: Database, engine: Engine, *, has_kafka: bool = False, has_intents: bool = False
    ) -> None:
        """`has_intents`: payments are settled from Kafka, so they wait for what was not published."""
        self._database, self._engine = database, engine
        self._has_kafka, self._has_intents = has_kafka, has_intents
        self._first_seq: int | None = None
        self._queries = pool_queries(database.dialect_name)
        self._reading = asyncio.Lock()
        self._read_at = float("-inf")
        self.last: Lags | None = None
        """As it was last read, for those who cannot wait."""

    async def read(self) -> Lags:
        """At most a second old."""
        async with self._reading:
            if self.last is None or monotonic() - self._read_at >= KEPT_S:
                self.last, self._read_at = await self._read(), monotonic()
            return self.last

    async def unsettled(self) -> int:
        """What every sale makes more of: decisions that are not in the ledger, payments that are not over, and, where
        these are settled from Kafka, events that are not there."""
        by_pool = {} if self._engine.journal_lag is None else await self._engine.journal_lag()
        behind = await self._database.read(self._unsettled)
        return behind + sum(lag.items for lag in by_pool.values())

    def _unsettled(self, connection: Connection) -> int:
        settling, _ = settlement_backlog(connection)
        return settling + (self._unpublished(connection) if self._has_intents else 0)

    def _unpublished(self, connection: Connection) -> int:
        """Without what happened before the first look: a ledger with a long history may only now be given to Kafka.
        Payments of that time which are not over count as such."""
        latest = latest_seq(connection)
        if self._first_seq is None:
            self._first_seq = latest
        return max(0, latest - max(self._first_seq, find_stream(connection, KAFKA).position))

    async def _read(self) -> Lags:
        by_pool = {} if self._engine.journal_lag is None else await self._engine.journal_lag()
        journal = Lag()
        for lag in by_pool.values():
            journal = journal.beside(lag)
        return await self._database.read(lambda connection: self._of_ledger(connection, journal, by_pool))

    def _of_ledger(self, connection: Connection, journal: Lag, by_pool: dict[str, Lag]) -> Lags:
        now = self._database.now_ms(connection)
        return Lags(
            now,
            journal,
            Lag.since(*settlement_backlog(connection), now),
            Lag.since(*unrelayed(connection), now).beside(_undelivered(connection, now)),
            Lag.since(*self._queries.overdue(connection, now), now),
            Lag.since(*stream_lag(connection, KAFKA), now) if self._has_kafka else Lag(),
            by_pool,
        )


class LagGuard:
    """Refuses new purchases while the backlog exceeds `lag_max`, so that work in progress is finished first.

    Webhooks do not count, nor does Kafka where nothing is settled from it: what is down there must not stop a sale.
    """

    def __init__(self, reader: LagReader, lag_max: int) -> None:
        self._reader = reader
        self._lag_max = lag_max
        self.is_shedding = False

    def agent(self) -> Agent[None]:
        return Agent("lag_guard", self.pass_once, KEPT_S)

    async def pass_once(self) -> None:
        unsettled = await self._reader.unsettled()
        limit = self._lag_max * (RESUME_PART if self.is_shedding else 1.0)
        is_shedding = unsettled > limit
        if is_shedding is not self.is_shedding:
            self.is_shedding = is_shedding
            log.warning("shedding_for_lag" if is_shedding else "lag_recovered", unsettled=unsettled)


def _undelivered(connection: Connection, now: int) -> Lag:
    lag = Lag()
    for _, count, oldest in delivery_backlog(connection):
        lag = lag.beside(Lag.since(count, oldest, now))
    return lag
