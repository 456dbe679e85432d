"""Repeats the first answer to a key without the gate: after a sale was closed, or a pass expired."""

from collections.abc import Awaitable, Callable

from holdfast.domain.sale.sale import Sale
from holdfast.domain.stock.command import Reserve, Verdict
from holdfast.domain.stock.pool import Pool, Rules
from holdfast.domain.stock.rulebook import decide
from holdfast.domain.stock.state import State
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.queries import find_remembered


class Replays:
    def __init__(self, database: Database, catch_up: Callable[[str | None], Awaitable[object]]) -> None:
        self._database = database
        self._catch_up = catch_up

    async def find(self, sale: Sale, command: Reserve) -> Verdict:
        """Decide as a closed sale: repeat earlier grants, make no new ones. Its pool may be in another sale."""
        key = command.key or ""
        await self._catch_up(sale.sku_id)
        first = await self._database.read(lambda c: find_remembered(c, sale.sku_id, command.owner_id, key))
        remembered = {} if first is None else {(command.owner_id, key): first}
        closed = State(sale.sku_id, Pool(sale.sku_id, 0, rules=Rules(ends_at=0)), remembered=remembered)
        return decide(closed, [command], 0).verdicts[0]
