"""Adds this process's counters (`runtime/counters.py`) to the ledger, and samples gauges.

Counts are added to two tables in one transaction: the sums of each pool, and its history by the second. One process
reads the levels (how many are in line, how many payments are open) for all of them, once a second while there is a
sale. No request waits for any of this.
"""

from time import monotonic

from sqlalchemy import Connection

from holdfast.errors import EngineError, OutcomeUnknown
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.levels import Levels, levels_of_sales
from holdfast.ledger.stock.history import add_levels, add_to_history, coarsen, take_turn
from holdfast.ledger.stock.pool_counts import add_counts
from holdfast.runtime import counters
from holdfast.runtime.agent import Agent

NOTE_EVERY_S = 0.5
SAMPLE_EVERY_MS, IDLE_EVERY_MS, COARSEN_EVERY_MS = 1_000, 5_000, 600_000
SAMPLED, COARSENED = "history.sampled_at", "history.coarsened_at"


class CounterFlusher:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._levels: Levels = {}
        self._next_sample = 0.0

    def agent(self) -> Agent[None]:
        return Agent("counter_flusher", self.note, NOTE_EVERY_S)

    async def note(self) -> None:
        await self._flush()
        if monotonic() >= self._next_sample:
            await self._sample()

    async def _flush(self) -> None:
        taken = counters.take()
        if not taken:
            return

        def add(connection: Connection) -> None:
            add_counts(connection, taken)
            add_to_history(connection, taken, self._database.now_ms(connection))

        try:
            await self._database.write(add)
        except OutcomeUnknown:
            raise  # A lost count is better than one counted twice.
        except EngineError:
            counters.put_back(taken)
            raise

    async def _sample(self) -> None:
        now, levels = await self._database.read(self._read)
        rest_ms = SAMPLE_EVERY_MS if levels else IDLE_EVERY_MS
        self._next_sample = monotonic() + rest_ms / 1000 - NOTE_EVERY_S / 2
        changed = {key: number for key, number in levels.items() if self._levels.get(key) != number}
        self._levels = levels
        if changed:
            await self._database.write(lambda c: self._write(c, changed, now))

    def _read(self, connection: Connection) -> tuple[int, Levels]:
        now = self._database.now_ms(connection)
        return now, levels_of_sales(connection, now)

    def _write(self, connection: Connection, changed: Levels, now: int) -> None:
        if take_turn(connection, SAMPLED, now, SAMPLE_EVERY_MS * 4 // 5):
            add_levels(connection, changed, now)
        if take_turn(connection, COARSENED, now, COARSEN_EVERY_MS):
            coarsen(connection, now)
