"""Opens the configured ledger and engine, which is all that most commands need."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy import make_url

from holdfast.gate.engine import Engine
from holdfast.gate.reconciler import Reconciler
from holdfast.gate.sql import SqlGate
from holdfast.gate.sql_audit import SqlAudit
from holdfast.gate.sql_owners import SqlOwners
from holdfast.ledger.engine.database import Database, SharedDatabase
from holdfast.ledger.engine.opening import open_database, open_replica
from holdfast.ledger.migrate import migrate
from holdfast.ledger.replicas.reads import LedgerReads
from holdfast.ledger.replicas.replica import Replica
from holdfast.ledger.stock.shared_reads import SharedReads, find_in, look_into
from holdfast.runtime.private_files import ensure_private_file, make_private_directory
from holdfast.settings import Settings


@asynccontextmanager
async def open_ledger(settings: Settings) -> AsyncIterator[Database]:
    """The database, at the revision this version needs."""
    async with _open_database(settings) as database:
        await migrate(database)
        # Everything from here on goes by its time.
        await database.read(database.now_ms)
        yield database


async def migrate_ledger(settings: Settings) -> tuple[str | None, str]:
    async with _open_database(settings) as database:
        return await migrate(database)


@asynccontextmanager
async def _open_database(settings: Settings) -> AsyncIterator[Database]:
    if settings.is_embedded:
        make_private_directory(database_file(settings).parent)
        # SQLite gives its other files the mode of this one.
        ensure_private_file(database_file(settings))
    database = open_database(settings.database_url, connections=settings.database_connections)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def open_reads(settings: Settings, database: Database) -> AsyncIterator[LedgerReads]:
    """Of the ledger, from its replicas where they are fit."""
    replicas = [Replica(*open_replica(url, connections=settings.database_connections)) for url in settings.replica_urls]
    reads = LedgerReads(database, replicas, has_tokens=not settings.has_redis)
    try:
        if replicas:
            await reads.measure()
        yield reads
    finally:
        await reads.close()


def database_file(settings: Settings) -> Path:
    return Path(make_url(settings.database_url).database or "")


@asynccontextmanager
async def open_engine(settings: Settings, database: Database) -> AsyncIterator[Engine]:
    """The configured gate with everything that belongs to it."""
    if not settings.has_redis:
        yield sql_engine(database)
        return
    # Imported only if Redis is configured, because its client is slow to import.
    from holdfast.gate.redis.wiring import open_redis_engine  # noqa: PLC0415 - see above

    async with open_redis_engine(
        database,
        url=settings.redis_url,
        timeout_s=settings.redis_timeout_ms / 1000,
        fsync=settings.redis_fsync,
        replicas_min=settings.redis_replicas_min,
        journal_max=settings.shed_lag_max,
        connections=settings.database_connections,
    ) as engine:
        yield engine


def sql_engine(database: Database) -> Engine:
    """Where the database is the gate."""
    find = SharedReads(find_in(database)).look
    gate, reconciler = SqlGate(database), Reconciler(database, SqlAudit(database))
    return Engine(
        gate,
        look_into(database),
        find,
        _is_up,
        reconciler,
        acknowledged=gate.acknowledged,
        locked_pools=gate.locked_pools,
        owner_feed=SqlOwners(database) if isinstance(database, SharedDatabase) else None,
    )


async def _is_up(_sku_id: str | None) -> None:
    """If the database is the gate, the ledger is always up to date."""
