"""SQLite: one writer, on a thread of its own, and readers who never wait for it.

The model. Who wants to write waits in a line. Those who wait together are worked off one after the other, each behind a
savepoint, and share one commit, which is what takes the time: where a thousand pools are asked at once, each batch
would else pay for a sync of its own. Of brief work, which would spend longer winning the interpreter lock back than
working, only the commit goes to the thread (docs/adr/0002-work-as-functions.md).

What happens when it fails. Work that fails is taken back alone, and the others go on. If SQLite gives up the whole
transaction (a full disk), nobody's work has happened. If the commit fails, nobody who shared it is told either way.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.pool import QueuePool

from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.ledger.clock import shared_clock
from holdfast.ledger.database import TRANSACTION_TIMEOUT_S, T, Work

# How long a write waits for another process to finish its own.
BUSY_TIMEOUT_S = 5.0

# A long listing must not keep a look at the stock waiting.
READERS = 4

# So many share a commit at most, and none is begun when those who came first have waited for the others so long.
GROUP_MAX = 64
GROUP_S = 0.01


class _Waiting(Struct, eq=False):
    work: Work[Any]
    brief: bool
    answer: "asyncio.Future[Any]"


class _Failed(Struct, frozen=True):
    """What a piece of work has instead of a result."""

    exc: Exception


class SqliteDatabase:
    dialect_name = "sqlite"

    def __init__(self, url: URL) -> None:
        self._clock = shared_clock(Path(url.database or ""))
        self._writer = _sqlite_engine(url, "BEGIN IMMEDIATE", connections=1)
        self._reader = _sqlite_engine(url, "BEGIN", connections=READERS)
        # SQLite has one writer. Readers never wait for it (WAL), nor for each other.
        self._line: deque[_Waiting] = deque()
        self._serving: asyncio.Task[None] | None = None
        self._write_thread = ThreadPoolExecutor(1, "sqlite-write")
        self._read_threads = ThreadPoolExecutor(READERS, "sqlite-read")

    async def write(
        self, work: Work[T], *, timeout_s: float = TRANSACTION_TIMEOUT_S, brief: bool = False, at_once: bool = False
    ) -> T:
        # A thread cannot be cut off, and a local file needs no limit: the busy timeout bounds the wait for the lock.
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._line.append(_Waiting(work, brief, answer))
        if self._serving is None:
            self._serving = loop.create_task(self._serve())
        # A caller that leaves is not told; their work goes on, and keeps its connection until its commit is done.
        return await answer

    async def _serve(self) -> None:
        group: list[_Waiting] = []
        try:
            while self._line:
                group = self._next_group()
                try:
                    results = await self._transact_together(group)
                except Exception as exc:
                    results = [_Failed(exc)] * len(group)
                for waiting, result in zip(group, results, strict=False):
                    _tell(waiting.answer, result)
                # Time ran out for the others, who come first now.
                self._line.extendleft(reversed(group[len(results) :]))
                if self._line:
                    # Work that changes nothing waits for nothing: a long line of it would keep the event loop.
                    await asyncio.sleep(0)
        except BaseException:
            # Stopped from outside: nobody may wait for ever, and of the group nobody knows.
            for waiting in (*group, *self._line):
                _tell(waiting.answer, _Failed(OutcomeUnknown("the writer was stopped")))
            self._line.clear()
            raise
        finally:
            self._serving = None

    def _next_group(self) -> "list[_Waiting]":
        """Those who came first, as long as they work in the same place."""
        line = self._line
        group = [line.popleft()]
        while line and line[0].brief is group[0].brief and len(group) < GROUP_MAX:
            group.append(line.popleft())
        return group

    async def _transact_together(self, group: "list[_Waiting]") -> "list[object]":
        loop, works = asyncio.get_running_loop(), [waiting.work for waiting in group]
        connection = _begin_at_once(self._writer) if group[0].brief else None
        if connection is None:
            return await loop.run_in_executor(self._write_thread, _transact_all, self._writer, works)
        with connection:
            before = _rows_changed(connection)
            results = _do_all(connection, works)
            if _rows_changed(connection) == before:
                # Nothing waits for the disk, so nobody need wait for the thread.
                _commit(connection)
            else:
                await loop.run_in_executor(self._write_thread, _commit, connection)
            return results

    async def read(self, work: Work[T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._read_threads, _transact, self._reader, work)

    async def glance(self, work: Work[T]) -> T:
        # Here the lock costs nothing, and the connection that writes is the one the event loop may use.
        return await self.write(work, brief=True)

    def now_ms(self, connection: Connection) -> int:
        return self._clock.now_ms()

    def known_now_ms(self) -> int | None:
        return self._clock.now_ms()

    async def close(self) -> None:
        if self._serving is not None:
            # Whoever gives up closing must not stop the writer.
            await asyncio.wait([self._serving])
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
    with _patient(engine) as connection:
        result = _do(connection, work)
        _commit(connection)
        return result


def _transact_all(engine: Engine, works: Sequence[Work[Any]]) -> list[object]:
    with _patient(engine) as connection:
        _do(connection, Connection.begin)
        results = _do_all(connection, works)
        _commit(connection)
        return results


def _patient(engine: Engine) -> Connection:
    connection = _connect(engine)
    connection.connection.cursor().execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000:.0f}")
    return connection


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


def _do_all(connection: Connection, works: Sequence[Work[Any]]) -> list[object]:
    """One after the other, as if each had a transaction of its own, until there are no more or time is up."""
    if len(works) == 1:
        return [_do(connection, works[0])]
    began, results = monotonic(), []
    for work in works:
        results.append(_do_apart(connection, work))
        if monotonic() - began > GROUP_S:
            break
    return results


def _do_apart(connection: Connection, work: Work[Any]) -> object:
    """Should it fail, nothing of it is left, and the others go on; unless SQLite gave up the whole transaction."""
    cursor = connection.connection.cursor()
    _savepoint(cursor, "SAVEPOINT work", None)
    try:
        result = _do(connection, work)
    except Exception as exc:
        _savepoint(cursor, "ROLLBACK TO work", exc)
        result = _Failed(exc)
    _savepoint(cursor, "RELEASE work", None)
    return result


def _savepoint(cursor: Any, statement: str, why: Exception | None) -> None:
    try:
        cursor.execute(statement)
    except sqlite3.Error as exc:
        raise Unavailable(f"the database gave up the transaction: {why or exc}") from exc


def _tell(answer: "asyncio.Future[Any]", result: object) -> None:
    if answer.done():
        return
    if isinstance(result, _Failed):
        # A future takes any exception but this one.
        exc = result.exc if not isinstance(result.exc, StopIteration) else RuntimeError(repr(result.exc))
        answer.set_exception(exc)
    else:
        answer.set_result(result)


def _commit(connection: Connection) -> None:
    try:
        connection.commit()
    except DBAPIError as exc:
        raise OutcomeUnknown(f"the commit may or may not have happened: {exc.orig}") from exc
