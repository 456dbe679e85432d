"""How SKUs are split, cached per process: the number of shards never changes."""

from sqlalchemy import Connection

from holdfast.domain.stock.command import Command, Extend, Move, Reserve
from holdfast.domain.stock.shards import shard_name, shard_of, shard_of_owner
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.splits import choose, shards_of


class Splits:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, int] = {}

    async def of(self, sku_id: str) -> int:
        """How many shards a SKU has: 1 if it is not split, 0 if there is no pool yet."""
        return self._known.get(sku_id) or await self._learn(sku_id)

    async def choose(self, sku_id: str, shards: int, total: int) -> int:
        """Split a new SKU. Returns how many shards it has, which another process may have chosen."""

        def work(connection: Connection) -> int:
            return choose(connection, sku_id, shards, total, self._database.now_ms(connection))

        return self._known.setdefault(sku_id, await self._database.write(work))

    async def _learn(self, sku_id: str) -> int:
        found = await self._database.read(lambda c: shards_of(c, sku_id))
        if found:
            self._known[sku_id] = found
        return found

    def line_of(self, sku_id: str, command: Command) -> str:
        """The queue of a command: each shard has its own, so a slow one does not delay the others."""
        shards = self._known.get(sku_id, 1)
        return sku_id if shards == 1 else pool_for(sku_id, shards, command) or sku_id


def pool_for(sku_id: str, shards: int, command: Command) -> str | None:
    """The shard of a buyer's command; None for commands about the stock, which concern all shards."""
    match command:
        case Reserve():
            return shard_name(sku_id, shard_of_owner(command.owner_id, shards), shards)
        case Move() | Extend():
            return shard_name(sku_id, shard_of(command.reservation_id, shards), shards)
        case _:
            return None
