"""SQLite: one writer, and readers that never wait for it.

The model. Writes go through one queue (`runtime/batching.py`). A batch runs in one transaction, each write behind a
savepoint, and shares one commit. The commit takes most of the time: with a thousand busy pools, each would otherwise
pay for its own fsync. Writes run on the writer thread, except brief ones: those would spend longer reacquiring the
interpreter lock than working, so only their commit goes to the thread (ADR 2). A commit of hardly more rows than one
reservation also stays on the event loop, if nobody else waits and the disk has been quick: the round trip to the thread
would then take longer than the commit.

What happens when it fails. A write that fails is rolled back alone, and the others continue. If SQLite aborts the whole
transaction, nothing in the batch has happened. If the commit fails, every caller in the batch gets `OutcomeUnknown`,
unless the cause (a full disk) proves that it did not happen. If a quick disk hangs during a commit on the event loop,
it blocks the loop for as long; the next commits go to the thread.
"""

import asyncio
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import takewhile
from math import inf
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.pool import QueuePool

from holdfast.errors import Cause, EngineError, OutcomeUnknown, Unavailable
from holdfast.ledger.engine.clock import shared_clock
from holdfast.ledger.engine.database import TRANSACTION_TIMEOUT_S, T, Work
from holdfast.ledger.engine.database_file import DatabaseFile
from holdfast.ledger.engine.guard import LedgerGuard
from holdfast.ledger.engine.sqlite_writer import LogCutter, SqliteWriter, begin, commit, driver_of, rows_changed
from holdfast.runtime.batching import NOT_STARTED, ONE_QUEUE, Failed, KeyedBatcher
from holdfast.runtime.engine_clock import STEP_MS

# How long a write waits for another process to finish its own.
BUSY_TIMEOUT_S = 5.0
BUSY_TIMEOUT_MS = round(BUSY_TIMEOUT_S * 1000)

# A long listing must not delay a read of the stock.
READERS = 4

# At most this many writes share a commit, and none starts once the first has waited this long for the others.
BATCH_MAX = 64
BATCH_S = 0.01
# A reservation with its event and key, its settlement, and the row of its pool.
LONE_ROWS = 6
# Faster commits may run on the event loop.
QUICK_COMMIT_S = 0.001

# Every busy pool and room has at most one waiting write; this is far above what a process serves.
QUEUE_MAX = 65_536

# A reader prevents the log from being truncated, so ours have a time limit. PostgreSQL gives them a fraction of this.
READ_S = 60.0
# Work between two checks of the time: a fraction of a millisecond.
READ_STEPS = 10_000

# The log grows during long reads, and is truncated to this size or less afterwards (`sqlite_writer.py`).
LOG_KEPT_BYTES = 64 * 1024**2
# A larger log has not been checkpointed for a long time.
LOG_MAX_BYTES = 4 * LOG_KEPT_BYTES

# The rest of an error code has the details.
PRIMARY_CODE = 0xFF
_CAUSES = {
    sqlite3.SQLITE_FULL: Cause.DISK_FULL,
    sqlite3.SQLITE_READONLY: Cause.STORE_READ_ONLY,
    sqlite3.SQLITE_BUSY: Cause.LOCK_TIMEOUT,
    sqlite3.SQLITE_LOCKED: Cause.LOCK_TIMEOUT,
}


class _Write(Struct, frozen=True, eq=False):
    work: Work[Any]
    brief: bool


class SqliteDatabase:
    dialect_name = "sqlite"

    def __init__(self, url: URL) -> None:
        self.guard = LedgerGuard()
        file = Path(url.database or "")
        self._clock = shared_clock(file)
        self._file = DatabaseFile(file, LOG_KEPT_BYTES)
        self.failed_writes = 0
        self.wrote_at = -inf
        # Recent commit duration: rises with the slowest, and falls slowly.
        self._commit_s = inf
        writing = _sqlite_engine(url, self._file, connections=1)
        self._writer = SqliteWriter(partial(_connect, writing))
        self._log = LogCutter(self._file, LOG_KEPT_BYTES)
        self._reader = _sqlite_engine(url, self._file, connections=READERS)
        self._engines = (self._reader, writing)
        event.listen(self._reader, "begin", _begin_reading)
        # SQLite has one writer. With WAL, readers wait neither for it nor for each other.
        self._writes: KeyedBatcher[_Write, Any] = KeyedBatcher(
            self._write_batch, batch_max=BATCH_MAX, queue_max=QUEUE_MAX
        )
        self._write_thread = ThreadPoolExecutor(1, "sqlite-write")
        self._read_threads = ThreadPoolExecutor(READERS, "sqlite-read")

    async def write(
        self, work: Work[T], *, timeout_s: float = TRANSACTION_TIMEOUT_S, brief: bool = False, autocommit: bool = False
    ) -> T:
        self.guard.ensure_open()
        # A thread cannot be aborted, and a local file needs no limit: the busy timeout bounds the wait for the lock. A
        # write whose caller leaves before it starts is dropped; once started, it is committed.
        return await self._writes.submit(ONE_QUEUE, _Write(work, brief))  # type: ignore[no-any-return]

    async def _write_batch(self, _queue: str, writes: Sequence[_Write], /) -> list[object]:
        """Runs the first writes that belong on the same thread, while there is time. The others wait."""
        is_doubtful = self._file.has_shrunk()
        if is_doubtful:
            await asyncio.get_running_loop().run_in_executor(self._write_thread, self._log.examine, self._writer)
        if self._log.is_due:
            await asyncio.get_running_loop().run_in_executor(self._write_thread, self._log.cut_back, self._writer)
        brief = writes[0].brief
        works = [write.work for write in takewhile(lambda write: write.brief is brief, writes)]
        results: list[object]
        try:
            if is_doubtful:
                # Missing pages would otherwise fail the writes with a different error.
                self._file.check_before_commit()
            results = await self._transact_together(works, brief=brief, is_alone=len(writes) == 1)
        except Exception as exc:
            # Only for these: the writes that did not start must not get another write's exception.
            results = [Failed(exc)] * len(works)
        self.failed_writes += sum(isinstance(one, Failed) and isinstance(one.exc, EngineError) for one in results)
        return results + [NOT_STARTED] * (len(writes) - len(results))

    async def _transact_together(self, works: list[Work[Any]], *, brief: bool, is_alone: bool) -> list[object]:
        if brief:
            done = await self._transact_briefly(works, is_alone=is_alone)
            if done is not None:
                return done
        work = partial(_transact_all, self._writer, self._file, works)
        results, changed = await asyncio.get_running_loop().run_in_executor(self._write_thread, work)
        self.wrote_at = monotonic() if changed else self.wrote_at
        return results

    async def _transact_briefly(self, works: list[Work[Any]], *, is_alone: bool) -> list[object] | None:
        """None if another process is writing: the event loop must not wait for it."""
        with self._writer.connected(waits_ms=0) as connection:
            if not _has_begun(connection):
                return None
            before = rows_changed(connection)
            results = _do_all(connection, works)
            rows = rows_changed(connection) - before
            if rows:
                if is_alone and rows <= LONE_ROWS and self._commit_s < QUICK_COMMIT_S and not self._writes.waiting:
                    took_s = _commit_to(self._file, connection)
                else:
                    run = asyncio.get_running_loop().run_in_executor
                    took_s = await run(self._write_thread, _commit_to, self._file, connection)
                self._note_commit(took_s)
                return results
            # There is nothing to sync, so no thread is needed.
            _commit(connection)
        if self._writes.waiting or len(results) < len(works):
            # A long queue of work that changes nothing must not block the event loop.
            await asyncio.sleep(0)
        return results

    def _note_commit(self, took_s: float) -> None:
        self.wrote_at = monotonic()
        kept_s = took_s if self._commit_s == inf else 0.9 * self._commit_s + 0.1 * took_s
        self._commit_s = max(took_s, kept_s)

    async def read(self, work: Work[T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._read_threads, _read, self._reader, work)

    async def lock_free_read(self, work: Work[T]) -> T:
        # Here the lock costs nothing, and only the writing connection may be used on the event loop.
        return await self.write(work, brief=True)

    def keep_probe_open(self) -> None:
        """A file is not probed."""

    def trouble(self) -> str | None:
        return "log_too_large" if self._file.log_bytes() > LOG_MAX_BYTES else None

    def now_ms(self, connection: Connection) -> int:
        return self._clock.now_ms()

    def known_now_ms(self) -> int | None:
        return self._clock.now_ms()

    def clock_step_ms(self) -> int:
        drift = self._clock.drift_ms()
        return drift if abs(drift) > STEP_MS else 0

    async def close(self) -> None:
        await self._writes.drain()
        self._writer.close()
        for thread, engine in zip((self._read_threads, self._write_thread), self._engines, strict=True):
            await asyncio.get_running_loop().run_in_executor(thread, engine.dispose)
            thread.shutdown()


def _sqlite_engine(url: URL, file: DatabaseFile, *, connections: int) -> Engine:
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
        file.check_opened()
        _enter_wal(connection)
        for pragma in (
            "synchronous = FULL",
            "cache_size = -65536",
            "temp_store = MEMORY",
            "wal_autocheckpoint = 4000",
            f"journal_size_limit = {LOG_KEPT_BYTES}",
        ):
            connection.execute(f"PRAGMA {pragma}")

    return engine


def _enter_wal(connection: sqlite3.Connection) -> None:
    """SQLite does not wait for the lock when a file changes its mode, which happens once, when it is created."""
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


def _begin_reading(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _has_begun(connection: Connection) -> bool:
    try:
        begin(connection)
    except sqlite3.Error:
        return False
    return True


def _read(engine: Engine, work: Work[T]) -> T:
    with _connect_patiently(engine) as connection:
        until = monotonic() + READ_S
        driver_of(connection).set_progress_handler(lambda: monotonic() > until, READ_STEPS)
        result = _do(connection, work)
        _commit(connection)
        return result


def _transact_all(writer: SqliteWriter, file: DatabaseFile, works: Sequence[Work[Any]]) -> tuple[list[object], bool]:
    """The results, and whether any row was changed."""
    with writer.connected(waits_ms=BUSY_TIMEOUT_MS) as connection:
        _do(connection, begin)
        before = rows_changed(connection)
        results = _do_all(connection, works)
        changed = rows_changed(connection) != before
        _commit_to(file, connection)
        return results, changed


def _connect_patiently(engine: Engine) -> Connection:
    connection = _connect(engine)
    connection.connection.cursor().execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    return connection


def _connect(engine: Engine) -> Connection:
    try:
        return engine.connect()
    except DBAPIError as exc:
        raise Unavailable(f"cannot open the database: {exc.orig}", _cause(exc)) from exc


def _do(connection: Connection, work: Work[T]) -> T:
    try:
        return work(connection)
    except (IntegrityError, sqlite3.IntegrityError):
        raise
    except (DBAPIError, sqlite3.Error) as exc:
        raise Unavailable(f"the database refused: {getattr(exc, 'orig', exc)}", _cause(exc)) from exc


def _do_all(connection: Connection, works: Sequence[Work[Any]]) -> list[object]:
    """Run them one after the other, as if each had its own transaction, until all are done or time is up."""
    if len(works) == 1:
        return [_do(connection, works[0])]
    began, results = monotonic(), []
    for work in works:
        results.append(_do_behind_savepoint(connection, work))
        if monotonic() - began > BATCH_S:
            break
    return results


def _do_behind_savepoint(connection: Connection, work: Work[Any]) -> object:
    """A failure rolls back this work alone, unless SQLite aborted the whole transaction."""
    cursor = connection.connection.cursor()
    _savepoint(cursor, "SAVEPOINT work", None)
    try:
        result = _do(connection, work)
    except Exception as exc:
        _savepoint(cursor, "ROLLBACK TO work", exc)
        result = Failed(exc)
    _savepoint(cursor, "RELEASE work", None)
    return result


def _savepoint(cursor: Any, statement: str, cause: Exception | None) -> None:
    try:
        cursor.execute(statement)
    except sqlite3.Error as exc:
        code = cause.cause if isinstance(cause, Unavailable) else _cause(exc)
        raise Unavailable(f"the database gave up the transaction: {cause or exc}", code) from exc


def _commit_to(file: DatabaseFile, connection: Connection) -> float:
    """Returns how long it took, in seconds."""
    began = monotonic()
    file.check_before_commit()
    _commit(connection)
    file.check_committed()
    return monotonic() - began


def _commit(connection: Connection) -> None:
    try:
        commit(connection)
    except (DBAPIError, sqlite3.Error) as exc:
        error = getattr(exc, "orig", exc)
        if (cause := _cause(exc)) is not None:
            # The last page, which completes the commit, was not written.
            raise Unavailable(f"the database refused to commit: {error}", cause) from exc
        raise OutcomeUnknown(f"the commit may or may not have happened: {error}") from exc


def _cause(exc: BaseException) -> Cause | None:
    error = getattr(exc, "orig", exc)
    return _CAUSES.get(getattr(error, "sqlite_errorcode", 0) & PRIMARY_CODE)
