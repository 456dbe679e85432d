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
from typing import Any, Protocol, TypeVar

import asyncpg
from sqlalchemy import BigInteger, Connection, Engine, cast, create_engine, event, extract, func, make_url, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool, QueuePool

from holdfast.domain.breaker import Breaker
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.ledger.clock import shared_clock
from holdfast.ledger.postgres_url import for_asyncpg
from holdfast.pulse import Pulse

T = TypeVar("T")
Work = Callable[[Connection], T]

# A transaction that takes longer than this is cut off: callers are better served by a quick retryable error.
TRANSACTION_TIMEOUT_S = 5.0

# How long a write on SQLite waits for another process to finish its own.
BUSY_TIMEOUT_S = 5.0

# How long a transaction waits for a connection while others have them all. If they have them because the server does
# not answer, the breaker cuts all of them off long before.
POOL_TIMEOUT_S = 4.0

# A long listing must not keep a look at the stock waiting.
READERS = 4


class Database(Protocol):
    dialect_name: str

    async def write(self, work: Work[T], *, timeout_s: float = TRANSACTION_TIMEOUT_S, brief: bool = False) -> T:
        """Run `work` in one transaction; when this returns, it is on disk. Brief work may keep the event loop."""

    async def read(self, work: Work[T]) -> T:
        """Run `work` on a consistent view, without waiting for writers."""

    def now_ms(self, connection: Connection) -> int:
        """The engine's clock."""

    async def close(self) -> None: ...


def open_database(url: str, *, connections: int = 8) -> Database:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return SqliteDatabase(parsed)
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
                result = _do(connection, work)
                await loop.run_in_executor(self._write_thread, _commit, connection)
                return result

    async def read(self, work: Work[T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._read_threads, _transact, self._reader, work)

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


# While connecting, asyncpg's own errors come through unwrapped.
POSTGRES_FAILURES = (DBAPIError, OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)


def _drop(connection: Any, *_circumstances: object) -> None:
    """Let go of a connection without waiting for the server to agree, which a frozen one never does."""
    connection.driver_connection.terminate()


class PostgresDatabase:
    dialect_name = "postgresql"

    def __init__(self, url: URL, connections: int) -> None:
        address, arguments = for_asyncpg(url)
        self._connections = connections
        self._engine = create_async_engine(
            address, pool_size=connections, max_overflow=0, pool_timeout=POOL_TIMEOUT_S, connect_args=arguments
        )
        self._probing = create_async_engine(address, poolclass=NullPool, connect_args=arguments)
        self._pulse = Pulse("postgresql", self._probe)
        for given_up in ("close", "invalidate"):
            for engine in (self._engine, self._probing):
                event.listen(engine.sync_engine, given_up, _drop)
        self._now = select(cast(extract("epoch", func.clock_timestamp()) * 1000, BigInteger))

    @property
    def breaker(self) -> Breaker:
        """Open while the server does not answer."""
        return self._pulse.breaker

    async def write(self, work: Work[T], *, timeout_s: float = TRANSACTION_TIMEOUT_S, brief: bool = False) -> T:
        committing = False

        def tracked(connection: Connection) -> T:
            nonlocal committing
            result = work(connection)
            committing = True
            connection.commit()
            return result

        try:
            return await self._run(tracked, timeout_s)
        except Unavailable as exc:
            if committing:
                raise OutcomeUnknown("the commit may or may not have happened") from exc
            raise

    async def read(self, work: Work[T]) -> T:
        return await self._run(work, TRANSACTION_TIMEOUT_S)

    async def _run(self, work: Work[T], timeout_s: float) -> T:
        try:
            async with self._pulse.call(timeout_s), self._engine.connect() as connection:
                return await connection.run_sync(work)
        except IntegrityError:
            raise
        except PoolTimeout as exc:
            raise Unavailable(f"all {self._connections} connections to PostgreSQL are in use") from exc
        except POSTGRES_FAILURES as exc:
            self._pulse.failed()
            reason = getattr(exc, "orig", None) or str(exc) or "it did not answer in time"
            raise Unavailable(f"PostgreSQL is not available: {reason}") from exc

    async def _probe(self) -> None:
        """On a connection of its own, so that it waits for nobody."""
        try:
            async with self._probing.connect() as connection:
                await connection.execute(select(1))
        except POSTGRES_FAILURES as exc:
            raise Unavailable(f"PostgreSQL is not available: {exc!r}") from exc

    def now_ms(self, connection: Connection) -> int:
        return int(connection.execute(self._now).scalar_one())

    async def close(self) -> None:
        await self._pulse.close()
        await self._engine.dispose()
        await self._probing.dispose()
