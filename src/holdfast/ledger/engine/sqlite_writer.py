"""SQLite's one writing connection. It stays open between transactions, which begin and end on the driver itself: taking
it from a pool, and telling SQLAlchemy of each step, costs a lone reservation as much as deciding it.

After a failure it is given back to the pool, which rolls back what is left and opens another if it has to.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection


class SqliteWriter:
    """Used by one thread at a time."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._connection: Connection | None = None
        self._waits_ms = -1

    @contextmanager
    def connected(self, waits_ms: int) -> Iterator[Connection]:
        """`waits_ms`: how long it waits for another process that writes."""
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
        """What has begun is rolled back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def begin(connection: Connection) -> None:
    driver_of(connection).execute("BEGIN IMMEDIATE")


def commit(connection: Connection) -> None:
    driver_of(connection).commit()
    if connection.in_transaction():
        # What SQLAlchemy took for a transaction of its own.
        connection.commit()


def rows_changed(connection: Connection) -> int:
    """Rows changed by this connection since it was opened."""
    return driver_of(connection).total_changes


def driver_of(connection: Connection) -> sqlite3.Connection:
    driver: Any = connection.connection.dbapi_connection
    return driver  # type: ignore[no-any-return]
