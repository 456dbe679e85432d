"""Publishes the counts of pools, so that other systems can follow the stock: `pool.updated`, at most one per second."""

from sqlalchemy import Connection

from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.pool_updates import SPACING_MS, pool_update_queries, wanting
from holdfast.runtime.agent import Agent

# A little more than the least time between two updates, so that no pass comes too early and does nothing.
INTERVAL_S = SPACING_MS / 1000 + 0.02


class PoolUpdates:
    def __init__(self, database: Database, *, has_stream: bool = False) -> None:
        """`has_stream`: someone other than webhooks needs the updates."""
        self._database = database
        self._has_stream = has_stream
        self._queries = pool_update_queries(database.dialect_name)

    def agent(self) -> Agent[int]:
        return Agent("pool_updates", self.pass_once, INTERVAL_S, jitter=0.0)

    async def pass_once(self) -> int:
        """Record what changed since the last pass. Returns for how many pools."""
        if not await self._database.read(self._is_due):
            return 0
        return await self._database.write(lambda c: self._queries.write(c, self._database.now_ms(c)))

    def _is_due(self, connection: Connection) -> bool:
        return (self._has_stream or bool(wanting(connection))) and self._queries.anything_changed(connection)
