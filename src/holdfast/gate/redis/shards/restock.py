"""Adds units once, however often it is requested, where Redis is the gate.

Units arrive as a transfer from their source, such as a refund, to the pool. The ledger records it under that reference,
and the gate takes it and remembers the number. A process that dies in between leaves units in transfer, which the
reconciler delivers. A repeated request finds them already written or taken.
"""

import structlog
from sqlalchemy import Connection, func, select

from holdfast.domain.stock.limits import MAX_TOTAL_UNITS
from holdfast.domain.stock.shards import shard_names
from holdfast.domain.stock.state import Transfer
from holdfast.errors import EngineError
from holdfast.gate.redis.shards.transfers import ShardTransfers
from holdfast.gate.redis.splits import Splits
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.splits import change_total, names_of, totals
from holdfast.ledger.stock.transfers import finish, insert_once, waiting_for
from holdfast.ledger.tables.stock import pools

log = structlog.get_logger()


class RedisRestocker:
    def __init__(self, database: Database, splits: Splits, transfers: ShardTransfers) -> None:
        self._database = database
        self._splits = splits
        self._transfers = transfers

    async def has_room(self, sku_id: str, units: int) -> bool:
        """Whether the pool may get this many more units, as of the ledger's position."""

        return await self._database.read(lambda c: _has_room(c, sku_id, units))

    async def restock(self, sku_id: str, units: int, reference: str) -> None:
        """Add units to a pool, once for each reference."""
        await self._database.write(lambda c: self._write(c, Transfer(reference, sku_id, 1, units)))
        await self._deliver(sku_id)

    def add(self, connection: Connection, sku_id: str, units: int, reference: str) -> bool:
        """The same as part of a transaction, if there is room; `deliver` follows once it is committed."""
        has_room = _has_room(connection, sku_id, units)
        if has_room:
            self._write(connection, Transfer(reference, sku_id, 1, units))
        return has_room

    async def deliver(self, sku_id: str) -> None:
        """The ledger has the units; if Redis cannot be reached, the reconciler delivers them later."""
        try:
            await self._deliver(sku_id)
        except EngineError as exc:
            log.warning("restock_not_delivered_yet", sku_id=sku_id, error=str(exc))

    async def _deliver(self, sku_id: str) -> None:
        shards = await self._splits.of(sku_id)
        await self._transfers.deliver(shard_names(sku_id, shards) if shards > 1 else [sku_id])

    def _write(self, connection: Connection, owed: Transfer) -> None:
        if len(names_of(connection, owed.receiver)) > 1:
            self._hand_out(connection, owed)
        else:
            insert_once(connection, owed, self._database.now_ms(connection))

    def _hand_out(self, connection: Connection, owed: Transfer) -> None:
        """A split pool gets them from the SKU itself; the transfer from their source is marked complete."""
        now = self._database.now_ms(connection)
        if insert_once(connection, owed, now):
            finish(connection, [owed], now)
            change_total(connection, owed.receiver, lambda total: total + owed.units, now)


def _has_room(connection: Connection, sku_id: str, units: int) -> bool:
    names = names_of(connection, sku_id)
    total = totals(connection, [sku_id]).get(sku_id)
    if total is None:
        query = select(func.coalesce(func.sum(pools.c.total), 0)).where(pools.c.sku_id.in_(names))
        total = int(connection.execute(query).scalar_one())
    in_transfer = sum(transfer.units for transfer in waiting_for(connection, [sku_id]))
    return total + in_transfer + units <= MAX_TOTAL_UNITS
