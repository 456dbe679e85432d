"""Confirmed sales whose order the ledger does not have yet.

A confirm returns once the ledger has claimed its units; the order follows with the journal. Until then the claim tells
which pool's journal has the sale. So a request for a buyer's orders drains that pool only, and includes the order. If
the ledger cannot have the order in time, the request fails and can be retried: a list without the order would be wrong.
"""

from collections.abc import Iterable

from sqlalchemy import Connection

from holdfast.errors import Busy
from holdfast.gate.redis.drainer import Drainer
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.claim_owners import ClaimOwners
from holdfast.ledger.stock.shared_reads import SharedReads

# As long as a transaction may wait for the lock of a pool.
WITHIN_S = 2.0


class ClaimedSales:
    def __init__(self, database: Database, drainer: Drainer) -> None:
        self._database, self._drainer = database, drainer
        self._queries = ClaimOwners(database.dialect_name)
        self._pools = SharedReads(self._read)

    async def catch_up(self, owner_id: str) -> None:
        pools = await self._pools.look(owner_id)
        if not pools:
            return
        await self._drainer.catch_up_pools(pools, within_s=WITHIN_S)
        if pools & (await self._pools.look(owner_id) or set()):
            raise Busy("the ledger does not have the journal yet")

    async def _read(self, owner_ids: Iterable[str]) -> dict[str, set[str]]:
        def pools(connection: Connection) -> dict[str, set[str]]:
            return self._queries.pools(connection, owner_ids)

        return await self._database.read(pools)
