"""The stores of one cell, for commands that work on several."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TypeVar

from msgspec import Struct
from sqlalchemy import Connection

from holdfast.bootstrap.background import loader_of
from holdfast.bootstrap.cells.settings import settings_of
from holdfast.bootstrap.marks import compare_kept
from holdfast.bootstrap.stores import open_engine, open_ledger
from holdfast.domain.stock.command import Command
from holdfast.domain.stock.outcome import Outcome
from holdfast.errors import Unavailable
from holdfast.gate.engine import Engine
from holdfast.ledger.cells.own import claim_identity
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.sale_copies import Stock, stock_of
from holdfast.sales.loading import Loader
from holdfast.settings import Settings

T = TypeVar("T")


class Site(Struct, frozen=True, eq=False):
    database: Database
    engine: Engine
    loader: Loader

    async def write(self, work: Callable[[Connection, int], T]) -> T:
        return await self.database.write(lambda c: work(c, self.database.now_ms(c)))

    async def stock(self, sku_id: str) -> Stock | None:
        await self.engine.catch_up(sku_id)
        return await self.database.read(partial(stock_of, sku_id=sku_id))

    async def apply(self, sku_id: str, command: Command) -> Outcome:
        [verdict] = await self.engine.gate.apply(sku_id, [command])
        if verdict.outcome is Outcome.NOT_READY:
            raise Unavailable(f"the pool {sku_id} is not ready")
        return verdict.outcome


OpenSite = Callable[[str], AbstractAsyncContextManager[Site]]


def sites_of(settings: Settings) -> OpenSite:
    return partial(_open_site, settings)


@asynccontextmanager
async def _open_site(settings: Settings, cell: str) -> AsyncIterator[Site]:
    given = settings_of(settings, cell)
    async with open_ledger(given) as database:
        for finding, _ in await compare_kept(given, database):
            database.guard.finding = finding
        async with open_engine(given, database) as engine:
            site = Site(database, engine, loader_of(database, engine))
            await site.write(lambda c, now: claim_identity(c, cell, now))
            yield site
