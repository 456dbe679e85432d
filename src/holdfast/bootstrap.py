"""The only place that builds things: settings go in, a running house comes out."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

from msgspec import Struct
from sqlalchemy import make_url

from holdfast.gate.batcher import Batcher
from holdfast.gate.port import Gate
from holdfast.gate.sql import SqlGate
from holdfast.http.identity import BuyerKeys, Doorkeeper
from holdfast.ledger.database import Database, open_database
from holdfast.ledger.lookout import Lookout
from holdfast.ledger.migrate import migrate
from holdfast.ledger.server_lock import ServerLock
from holdfast.settings import Settings
from holdfast.settlement.expire import Expirer, Pruner


class House(Struct, frozen=True, eq=False):
    settings: Settings
    database: Database
    gate: Gate
    batcher: Batcher
    lookout: Lookout
    doorkeeper: Doorkeeper


@asynccontextmanager
async def open_ledger(settings: Settings) -> AsyncIterator[Database]:
    """The database, at the revision this version needs."""
    async with _open_database(settings) as database:
        await migrate(database)
        yield database


async def migrate_ledger(settings: Settings) -> tuple[str | None, str | None]:
    async with _open_database(settings) as database:
        return await migrate(database)


@asynccontextmanager
async def _open_database(settings: Settings) -> AsyncIterator[Database]:
    if settings.is_embedded:
        database_file(settings).parent.mkdir(parents=True, exist_ok=True)
    database = open_database(settings.database_url, connections=settings.database_connections)
    try:
        yield database
    finally:
        await database.close()


def database_file(settings: Settings) -> Path:
    return Path(make_url(settings.database_url).database or "")


@asynccontextmanager
async def open_house(settings: Settings, *, background: bool) -> AsyncIterator[House]:
    """Everything a server needs, running; on the way out, what was accepted is finished first."""
    with _server_locks(settings, ["server", "worker"] if background else ["server"]):
        async with open_ledger(settings) as database:
            house = _build(settings, database)
            async with _background(database, house.gate, enabled=background):
                yield house
                await house.batcher.drain()


@asynccontextmanager
async def open_worker(settings: Settings) -> AsyncIterator[None]:
    """The background work alone, beside servers that were started without it."""
    with _server_locks(settings, ["worker"]):
        async with open_ledger(settings) as database, _background(database, SqlGate(database), enabled=True):
            yield


def _build(settings: Settings, database: Database) -> House:
    gate = SqlGate(database)
    batcher = Batcher(
        gate,
        batch_max=settings.batch_max,
        line_max=settings.line_max,
        patience_s=settings.patience_ms / 1000,
        memory_s=settings.sold_out_memory_ms / 1000,
    )
    buyer_keys = BuyerKeys(settings.buyer_secret_text(), settings.buyer_jwks_url)
    doorkeeper = Doorkeeper(database, settings.service_key_text(), buyer_keys)
    return House(settings, database, gate, batcher, Lookout(database), doorkeeper)


@contextmanager
def _server_locks(settings: Settings, roles: list[str]) -> Iterator[None]:
    with ExitStack() as held:
        for role in roles if settings.is_embedded else []:
            held.callback(ServerLock(database_file(settings), role).acquire().release)
        yield


@asynccontextmanager
async def _background(database: Database, gate: Gate, *, enabled: bool) -> AsyncIterator[None]:
    agents = [Expirer(database, gate).run(), Pruner(database).run()] if enabled else []
    tasks = [asyncio.create_task(agent) for agent in agents]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
