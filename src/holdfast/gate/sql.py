"""The gate on SQLite and PostgreSQL: one lock and one commit per batch.

Lock the pool's row, read what the batch touches, decide, write the changes in bulk, commit. The commit is the moment
of truth: before it nothing has happened, after it the verdicts may be told. Several processes may do this on one
PostgreSQL; the row lock puts their batches in a line. If the CHECK on the pool's row ever fails, the rulebook has a
defect, the batch is rolled back whole and nobody was told yes.
"""

from collections.abc import Sequence
from time import perf_counter

from sqlalchemy import Connection

from holdfast import metrics
from holdfast.domain.command import Command, Verdict
from holdfast.domain.rulebook import decide
from holdfast.ledger.batch import BatchQueries
from holdfast.ledger.database import Database


class SqlGate:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.queries = BatchQueries(database.dialect_name)

    async def apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        started = perf_counter()
        verdicts = await self._database.write(lambda connection: self.decide(connection, sku_id, commands), brief=True)
        metrics.COMMIT_SECONDS.observe(perf_counter() - started)
        return verdicts

    def decide(self, connection: Connection, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        locked = self.queries.lock(connection, sku_id, commands)
        now = max(self._database.now_ms(connection), locked.decided_at)
        state = self.queries.load(connection, locked, commands, now)
        started = perf_counter()
        decision = decide(state, commands, now)
        metrics.DECIDE_SECONDS.observe(perf_counter() - started)
        self.queries.store(connection, locked, decision.changes, now)
        return decision.verdicts
