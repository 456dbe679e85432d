"""Looking at pools, shared.

Everyone who asks while a look is under way shares the next one, so a crowd that asks "how many are left?" costs a few
queries per second, and nobody is shown a state older than their own question.
"""

import asyncio
from collections.abc import Iterable

from sqlalchemy import Connection

from holdfast.errors import Unavailable
from holdfast.ledger.database import Database
from holdfast.ledger.queries import PoolQueries, PoolView


class Lookout:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._queries = PoolQueries(database.dialect_name)
        self._asked: dict[str, asyncio.Future[PoolView | None]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def look(self, sku_id: str) -> PoolView | None:
        answer = self._asked.get(sku_id)
        if answer is None:
            loop = asyncio.get_running_loop()
            answer = self._asked[sku_id] = loop.create_future()
            if self._looking is None:
                self._looking = loop.create_task(self._look_around())
        return await asyncio.shield(answer)

    async def _look_around(self) -> None:
        while self._asked:
            asked, self._asked = self._asked, {}
            await self._answer(asked)
        self._looking = None

    async def _answer(self, asked: dict[str, asyncio.Future[PoolView | None]]) -> None:
        try:
            views = await self._database.read(lambda connection: self._views(connection, asked))
        except Exception as exc:
            for answer in asked.values():
                answer.set_exception(exc if isinstance(exc, Unavailable) else Unavailable(str(exc)))
                answer.exception()  # Whoever asked may be gone; the failure is not theirs to collect.
            return
        for sku_id, answer in asked.items():
            answer.set_result(views.get(sku_id))

    def _views(self, connection: Connection, asked: Iterable[str]) -> dict[str, PoolView]:
        return self._queries.views(connection, asked, self._database.now_ms(connection))
