"""SQLite's one writing connection. It stays open between transactions, which begin and end directly on the driver:
taking it from a pool, and reporting each step to SQLAlchemy, costs a lone reservation as much as deciding it.

After a failure it is returned to the pool, which rolls back and opens another if necessary.

It also truncates the write-ahead log while reads overlap. SQLite restarts the log only when nobody reads from it.
Overlapping reads leave no such moment, so the log would grow as long as they continue. Once the log is too large, the
writer waits for the reads that are active at that time; reads that begin later do not block it. Writes wait with it: a
quarter of a second at first, and longer the next time if that was too short. They lose a twentieth of their time at
most. If a read takes longer than LONGEST_WAIT_S, the log grows until it ends.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

from sqlalchemy import Connection

from holdfast.errors import EngineError
from holdfast.ledger.engine.database_file import DatabaseFile

# Reads take less unless the machine is overloaded.
FIRST_WAIT_S, LONGEST_WAIT_S = 0.25, 1.0
# Between two attempts, as a multiple of the wait in the first.
PAUSES = 20


class SqliteWriter:
    """Used by one thread at a time."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._connection: Connection | None = None
        self._waits_ms = -1

    @contextmanager
    def connected(self, waits_ms: int) -> Iterator[Connection]:
        """`waits_ms`: how long to wait for another process that writes."""
        connection = self._connection
        if connection is None:
            connection = self._connection = self._connect()
            self._waits_ms = -1
        try:
            if waits_ms != self._waits_ms:
                driver_of(connection).execute(f"PRAGMA busy_timeout = {waits_ms}")
                self._waits_ms = waits_ms
            yield connection
        except BaseException:
            self.close()
            raise
        if driver_of(connection).in_transaction or connection.in_transaction():
            self.close()

    def close(self) -> None:
        """Roll back an open transaction."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def begin(connection: Connection) -> None:
    driver_of(connection).execute("BEGIN IMMEDIATE")


def commit(connection: Connection) -> None:
    driver_of(connection).commit()
    if connection.in_transaction():
        # SQLAlchemy considers this its own transaction.
        connection.commit()


def rows_changed(connection: Connection) -> int:
    """Rows changed by this connection since it was opened."""
    return driver_of(connection).total_changes


def driver_of(connection: Connection) -> sqlite3.Connection:
    driver: Any = connection.connection.dbapi_connection
    return driver  # type: ignore[no-any-return]


class LogCutter:
    def __init__(self, file: DatabaseFile, kept_bytes: int) -> None:
        self._file, self._kept_bytes = file, kept_bytes
        self._wait_s = FIRST_WAIT_S
        self._next_at = 0.0

    @property
    def is_due(self) -> bool:
        return self._file.log_bytes() > self._kept_bytes and monotonic() >= self._next_at

    def cut_back(self, writer: SqliteWriter) -> None:
        """Called on the writer's thread, between two transactions."""
        self._next_at = monotonic() + PAUSES * self._wait_s
        # The next commit detects any problem with the file.
        with suppress(EngineError, sqlite3.Error), writer.connected(round(self._wait_s * 1000)) as connection:
            is_busy, *_ = driver_of(connection).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._wait_s = min(self._wait_s * 2, LONGEST_WAIT_S) if is_busy else FIRST_WAIT_S
        self._file.log_was_cut_back()

    def examine(self, writer: SqliteWriter) -> None:
        """Whether a file that has become smaller is still complete. The pages are checked first, because the checkpoint
        that tells how many frames the log must have writes some of them. Missing pages may all be in the log; finding
        that out takes longer, but is necessary only if the file was truncated during one of our commits."""
        with suppress(EngineError, sqlite3.Error), writer.connected(0) as connection:
            ask = driver_of(connection).execute
            [page_bytes], [pages] = ask("PRAGMA page_size").fetchone(), ask("PRAGMA page_count").fetchone()
            if not (self._file.has_pages(pages, page_bytes) or self._file.is_whole()):
                return
            _, frames, _ = ask("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if self._file.has_frames(frames, page_bytes):
                self._file.trust_sizes()
