"""Adds what this process has counted (`runtime/counters.py`) to the ledger."""

from holdfast.errors import EngineError, OutcomeUnknown
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.pool_counts import add_counts
from holdfast.runtime import counters
from holdfast.runtime.agent import Agent

NOTE_EVERY_S = 0.5


class CounterFlusher:
    def __init__(self, database: Database) -> None:
        self._database = database

    def agent(self) -> Agent[None]:
        return Agent("counter_flusher", self.note, NOTE_EVERY_S)

    async def note(self) -> None:
        taken = counters.take()
        if not taken:
            return
        try:
            await self._database.write(lambda c: add_counts(c, taken))
        except OutcomeUnknown:
            raise  # A lost count is better than one counted twice.
        except EngineError:
            counters.put_back(taken)
            raise
