"""Looking at pools, shared.

Everyone who asks while a look is under way shares the next one, so a crowd that asks "how many are left?" costs a few
queries per second, and nobody is shown a state older than their own question.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from sqlalchemy import Connection

from holdfast.errors import Unavailable
from holdfast.ledger.database import Database
from holdfast.ledger.queries import PoolQueries, PoolView

# What a look at some pools shows: those that are not there are left out, and a failure may be of one of them only.
Views = Mapping[str, PoolView | Unavailable]
LookAt = Callable[[Iterable[str]], Awaitable[Views]]


def look_into(database: Database) -> LookAt:
    """A look at pools that are decided in the database."""
    queries = PoolQueries(database.dialect_name)

    async def look_at(sku_ids: Iterable[str]) -> Views:
        def views(connection: Connection) -> Views:
            return queries.views(connection, sku_ids, database.now_ms(connection))

        return await database.read(views)

    return look_at


class Lookout:
    def __init__(self, look_at: LookAt) -> None:
        self._look_at = look_at
        self._asked: dict[str, list[asyncio.Future[PoolView | None]]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def look(self, sku_id: str) -> PoolView | None:
        loop = asyncio.get_running_loop()
        # One for each who asks: whoever leaves takes nobody else along, and `shield` would cost as much as the rest.
        answer: asyncio.Future[PoolView | None] = loop.create_future()
        self._asked.setdefault(sku_id, []).append(answer)
        if self._looking is None:
            self._looking = loop.create_task(self._look_around())
        return await answer

    async def _look_around(self) -> None:
        while self._asked:
            asked, self._asked = self._asked, {}
            await self._answer(asked)
        self._looking = None

    async def _answer(self, asked: dict[str, list[asyncio.Future[PoolView | None]]]) -> None:
        try:
            views = await self._look_at(asked)
        except Exception as exc:
            failure = exc if isinstance(exc, Unavailable) else Unavailable(str(exc))
            views = dict.fromkeys(asked, failure)
        for sku_id, answers in asked.items():
            view = views.get(sku_id)
            for answer in answers:
                if answer.done():
                    continue
                if isinstance(view, Unavailable):
                    answer.set_exception(view)
                else:
                    answer.set_result(view)
