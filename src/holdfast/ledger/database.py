"""One way to run a transaction, on SQLite and on PostgreSQL.

Work is a plain function of a SQLAlchemy connection. PostgreSQL runs it on asyncpg through SQLAlchemy's bridge. SQLite
runs it on a thread of its own, one hop per transaction instead of one per statement; of brief work, which would spend
longer winning the interpreter lock back than working, only the commit goes to that thread
(docs/adr/0002-work-as-functions.md).

A failure before COMMIT is `Unavailable`: nothing happened. A failure of COMMIT itself is `OutcomeUnknown`: the caller
must not be told either way. CHECK violations pass through as they are, because they mean a defect and not an outage.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from typing import Protocol, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.pool import QueuePool

from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.ledger.clock import shared_clock

T = TypeVar("T")
Work = Callable[[Connection], T]

# A transaction that takes longer than this is cut off: callers are better served by a quick retryable error.
TRANSACTION_TIMEOUT_S = 5.0

# How long a write on SQLite waits for another process to finish its own.
BUSY_TIMEOUT_S = 5.0

# A long listing must not keep a look at the stock waiting.
READERS = 4


class Database(Protocol):
    dialect_name: str

    async def write(self, work: Work[T], *, timeout_s: float = TRANSACTION_TIMEOUT_S, brief: bool = False) -> T:
        """Run `work` in one transaction; when this returns, it is on disk. Brief work may keep the event loop."""

    async def read(self, work: Work[T]) -> T:
        """Run `work` on a consistent view, without waiting for writers."""

    async def glance(self, work: Work[T]) -> T:
        """Run brief work that only reads, on a consistent view, as cheaply as can be."""

    def now_ms(self, connection: Connection) -> int:
        """The engine's clock."""

    async def close(self) -> None: ...


def open_database(url: str, *, connections: int = 8) -> Database:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return SqliteDatabase(parsed)
    # Its driver takes longer to load than the whole of SQLite.
    from holdfast.ledger.postgres import PostgresDatabase  # noqa: PLC0415 - see above

    return PostgresDatabase(parsed, connections)


class SqliteDatabase:
    dialect_name = "sqlite"

    def __init__(self, url: URL) -> None:
        self._clock = shared_clock(Path(url.database or ""))
        self._writer = _sqlite_engine(url, "BEGIN IMMEDIATE", connections=1)
        self._reader = _sqlite_engine(url, "BEGIN", connections=READERS)
        # SQLite has one writer. Readers never wait for it (WAL), nor for each other.
        self._turn = asyncio.Lock()
        self._write_thread = ThreadPoolExecutor(1, "sqlite-write")
        self._read_threads = ThreadPoolExecutor(READERS, "sqlite-read")

    async def write(self, work: Work[T], *, timeout_s: float = TRANSACTION_TIMEOUT_S, brief: bool = False) -> T:
        # A thread cannot be cut off, and a local file needs no limit: the busy timeout bounds the wait for the lock.
        # A caller that leaves must not take the connection away from under its own commit.
        return await asyncio.shield(self._write(work, brief=brief))

    async def _write(self, work: Work[T], *, brief: bool) -> T:
        loop = asyncio.get_running_loop()
        async with self._turn:
            connection = _begin_at_once(self._writer) if brief else None
            if connection is None:
                return await loop.run_in_executor(self._write_thread, _transact, self._writer, work)
            with connection:
                before = _rows_changed(connection)
                result = _do(connection, work)
                if _rows_changed(connection) == before:
                    # Nothing waits for the disk, so nobody need wait for the thread.
                    _commit(connection)
                else:
                    await loop.run_in_executor(self._write_thread, _commit, connection)
                return result

    async def read(self, work: Work[T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._read_threads, _transact, self._reader, work)

    async def glance(self, work: Work[T]) -> T:
        # Here the lock costs nothing, and the connection that writes is the one the event loop may use.
        return await self.write(work, brief=True)

    def now_ms(self, connection: Connection) -> int:
        return self._clock.now_ms()

    async def close(self) -> None:
        for thread, engine in ((self._read_threads, self._reader), (self._write_thread, self._writer)):
            await asyncio.get_running_loop().run_in_executor(thread, engine.dispose)
            thread.shutdown()


def _sqlite_engine(url: URL, begin: str, *, connections: int) -> Engine:
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=connections,
        max_overflow=0,
        connect_args={"check_same_thread": False, "timeout": BUSY_TIMEOUT_S},
    )

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        _enter_wal(connection)
        for pragma in (
            "synchronous = FULL",
            "cache_size = -65536",
            "temp_store = MEMORY",
            "wal_autocheckpoint = 4000",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _enter_wal(connection: sqlite3.Connection) -> None:
    """SQLite does not wait for the lock when a file changes its mode, which happens once, when it is made."""
    until = monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if monotonic() > until:
                raise
            sleep(0.02)
        else:
            return


def _begin_at_once(engine: Engine) -> Connection | None:
    """A transaction, or None if another process is writing: waiting for it is not for the event loop."""
    connection = _connect(engine)
    connection.connection.cursor().execute("PRAGMA busy_timeout = 0")
    try:
        connection.begin()
    except DBAPIError:
        connection.close()
        return None
    return connection


def _rows_changed(connection: Connection) -> int:
    """By this connection, since it was opened."""
    sqlite: sqlite3.Connection = connection.connection.dbapi_connection  # type: ignore[assignment]
    return sqlite.total_changes


def _transact(engine: Engine, work: Work[T]) -> T:
    with _connect(engine) as connection:
        connection.connection.cursor().execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000:.0f}")
        result = _do(connection, work)
        _commit(connection)
        return result


def _connect(engine: Engine) -> Connection:
    try:
        return engine.connect()
    except DBAPIError as exc:
        raise Unavailable(f"cannot open the database: {exc.orig}") from exc


def _do(connection: Connection, work: Work[T]) -> T:
    try:
        return work(connection)
    except (IntegrityError, sqlite3.IntegrityError):
        raise
    except (DBAPIError, sqlite3.Error) as exc:
        raise Unavailable(f"the database refused: {getattr(exc, 'orig', exc)}") from exc


def _commit(connection: Connection) -> None:
    try:
        connection.commit()
    except DBAPIError as exc:
        raise OutcomeUnknown(f"the commit may or may not have happened: {exc.orig}") from exc
