"""Looking at pools, reservations and orders, shared.

Everyone who asks while a look is under way shares the next one, so a crowd that asks "how many are left?" or "is it
paid?" costs a few queries per second, and nobody is shown a state older than their own question.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Generic, TypeVar

import structlog
from sqlalchemy import Connection

from holdfast.domain.reservation import Reservation
from holdfast.errors import EngineError, Unavailable
from holdfast.ledger.database import Database
from holdfast.ledger.queries import PoolQueries, PoolView, ReservationQueries
from holdfast.ledger.sale_lists import ListedOrders, OrderQueries

log = structlog.get_logger()

Seen = TypeVar("Seen")

# What a look shows by key: what is not there is left out, and a failure may be of one of them only.
Shown = Mapping[str, Seen | Unavailable]
Look = Callable[[Iterable[str]], Awaitable[Shown[Seen]]]
Views = Shown[PoolView]
LookAt = Look[PoolView]


def look_into(database: Database) -> LookAt:
    """A look at pools that are decided in the database."""
    queries = PoolQueries(database.dialect_name)

    async def look_at(sku_ids: Iterable[str]) -> Views:
        def views(connection: Connection) -> Views:
            return queries.views(connection, sku_ids, database.now_ms(connection))

        return await database.read(views)

    return look_at


def find_in(database: Database) -> Look[Reservation]:
    """A look at reservations as the ledger has them, by their ids."""
    queries = ReservationQueries(database.dialect_name)

    async def find(reservation_ids: Iterable[str]) -> Shown[Reservation]:
        def found(connection: Connection) -> Shown[Reservation]:
            return queries.found(connection, reservation_ids, database.now_ms(connection))

        return await database.read(found)

    return find


def orders_in(database: Database) -> Look[ListedOrders]:
    """A look at the newest orders of buyers."""
    queries = OrderQueries(database.dialect_name)

    async def first_pages(buyer_ids: Iterable[str]) -> Shown[ListedOrders]:
        return await database.read(lambda connection: queries.first_pages(connection, buyer_ids))

    return first_pages


class Lookout(Generic[Seen]):
    def __init__(self, look_at: Look[Seen]) -> None:
        self._look_at = look_at
        self._asked: dict[str, list[asyncio.Future[Seen | None]]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def look(self, key: str, /) -> Seen | None:
        loop = asyncio.get_running_loop()
        # One for each who asks: whoever leaves takes nobody else along, and `shield` would cost as much as the rest.
        answer: asyncio.Future[Seen | None] = loop.create_future()
        self._asked.setdefault(key, []).append(answer)
        if self._looking is None:
            self._looking = loop.create_task(self._look_around())
        return await answer

    async def _look_around(self) -> None:
        while self._asked:
            asked, self._asked = self._asked, {}
            await self._answer(asked)
        self._looking = None

    async def _answer(self, asked: dict[str, list[asyncio.Future[Seen | None]]]) -> None:
        try:
            shown = await self._look_at(asked)
        except Exception as exc:
            if not isinstance(exc, EngineError):
                log.exception("look_failed")
            failure = exc if isinstance(exc, Unavailable) else Unavailable(str(exc))
            shown = dict.fromkeys(asked, failure)
        for key, answers in asked.items():
            seen = shown.get(key)
            for answer in answers:
                if answer.done():
                    continue
                if isinstance(seen, Unavailable):
                    answer.set_exception(seen)
                else:
                    answer.set_result(seen)
