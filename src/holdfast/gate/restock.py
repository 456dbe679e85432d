"""Units that are added once, however often it is asked, where Redis is the gate.

They come as a transfer from whatever they are owed for, such as a refund, to the pool: written in the ledger under that
name, and taken by the gate, which remembers the number. So whoever dies in between leaves units on their way, which the
reconciler delivers, and whoever asks again finds them written or taken already.
"""

from sqlalchemy import Connection, func, select

from holdfast.domain.pool import MAX_TOTAL_UNITS
from holdfast.domain.shards import shard_names
from holdfast.domain.state import Transfer
from holdfast.gate.carrier import Carrier
from holdfast.gate.splits import Splits
from holdfast.ledger.database import Database
from holdfast.ledger.splits import change_total, names_of, totals
from holdfast.ledger.tables import pools
from holdfast.ledger.transfers import finish, insert_once, waiting_for


class RedisRestocker:
    def __init__(self, database: Database, splits: Splits, carrier: Carrier) -> None:
        self._database = database
        self._splits = splits
        self._carrier = carrier

    async def has_room(self, sku_id: str, units: int) -> bool:
        """Whether the pool may have so many more. As the ledger knows it: what came since is not counted yet."""

        def room(connection: Connection) -> bool:
            names = names_of(connection, sku_id)
            there_are = totals(connection, [sku_id]).get(sku_id)
            if there_are is None:
                query = select(func.coalesce(func.sum(pools.c.total), 0)).where(pools.c.sku_id.in_(names))
                there_are = int(connection.execute(query).scalar_one())
            on_its_way = sum(transfer.units for transfer in waiting_for(connection, [sku_id]))
            return there_are + on_its_way + units <= MAX_TOTAL_UNITS

        return await self._database.read(room)

    async def restock(self, sku_id: str, units: int, reference: str) -> None:
        """Add units to a pool, once for each reference."""
        owed = Transfer(reference, sku_id, 1, units)
        shards = await self._splits.of(sku_id)
        if shards > 1:
            await self._database.write(lambda c: self._hand_out(c, owed))
        else:
            await self._database.write(lambda c: insert_once(c, owed, self._database.now_ms(c)))
        await self._carrier.deliver(shard_names(sku_id, shards) if shards > 1 else [sku_id])

    def _hand_out(self, connection: Connection, owed: Transfer) -> None:
        """A split pool gets them from the SKU itself; what they are owed for is noted as done with."""
        now = self._database.now_ms(connection)
        if insert_once(connection, owed, now):
            finish(connection, [owed], now)
            change_total(connection, owed.receiver, lambda total: total + owed.units, now)
