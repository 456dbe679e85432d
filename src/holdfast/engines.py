"""The ledger and the gate that the settings ask for, opened for a while: all that most commands need of the house."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct
from sqlalchemy import make_url

from holdfast.domain.reservation import Reservation
from holdfast.gate.link.port import RedisLink
from holdfast.gate.port import Gate
from holdfast.gate.restock import RedisRestocker
from holdfast.gate.splits import Splits
from holdfast.gate.sql import SqlGate
from holdfast.ledger.database import Database, open_database
from holdfast.ledger.lookout import LookAt, Lookout, find_in, look_into
from holdfast.ledger.migrate import migrate
from holdfast.settings import Settings
from holdfast.settlement.drain import Drainer
from holdfast.settlement.reconcile import Reconciler

Find = Callable[[str], Awaitable[Reservation | None]]
CatchUp = Callable[[str | None], Awaitable[None]]


class Engine(Struct, frozen=True, eq=False):
    """Where stock is decided: what is asked for a decision, what shows how things stand, what keeps it true."""

    gate: Gate
    look_at: LookAt
    find: Find
    catch_up: CatchUp
    """Let the ledger hear of what was decided in a pool, or in all, before it is asked for a list."""
    reconciler: Reconciler
    drainer: Drainer | None = None
    link: RedisLink | None = None
    splits: Splits | None = None
    restocker: RedisRestocker | None = None
    """Where a pool can be split into shards."""


@asynccontextmanager
async def open_ledger(settings: Settings) -> AsyncIterator[Database]:
    """The database, at the revision this version needs."""
    async with _open_database(settings) as database:
        await migrate(database)
        yield database


async def migrate_ledger(settings: Settings) -> tuple[str | None, str]:
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
async def open_engine(settings: Settings, database: Database) -> AsyncIterator[Engine]:
    """The gate that the settings ask for, with everything that belongs to it."""
    if not settings.has_redis:
        find = Lookout(find_in(database)).look
        yield Engine(SqlGate(database), look_into(database), find, _is_up, Reconciler(database))
        return
    # Only here: who has no Redis need not load what speaks to it.
    from holdfast.redis_engine import open_redis_engine  # noqa: PLC0415 - see above

    async with open_redis_engine(settings, database) as engine:
        yield engine


async def _is_up(_sku_id: str | None) -> None:
    """Where the database decides, it has heard of everything."""
