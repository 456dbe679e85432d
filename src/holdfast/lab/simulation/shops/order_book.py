"""A shop's own SQLite file: its orders, and its stock if the shop keeps it there."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local
from typing import TypeVar

from msgspec import Struct

T = TypeVar("T")

# A shop's web server has a few workers, each with its own connection.
WORKERS = 4
BUSY_TIMEOUT_S = 1.0
_TABLES = """
    PRAGMA journal_mode = WAL;
    CREATE TABLE stock (available INTEGER NOT NULL);
    CREATE TABLE orders (order_id INTEGER PRIMARY KEY, buyer_id TEXT NOT NULL);
"""
_TOTALS = """
    SELECT coalesce(sum(orders), 0), coalesce(sum(orders > 1), 0)
    FROM (SELECT count(*) AS orders FROM orders GROUP BY buyer_id)
"""
_ORDER = "INSERT INTO orders (buyer_id) VALUES (?)"


class Totals(Struct, frozen=True):
    orders: int
    # Buyers with more than one order.
    twice: int


class OrderBook:
    def __init__(self, file: Path, units: int) -> None:
        self.file = file
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix=file.stem)
        self._connections = local()
        self._opened: list[sqlite3.Connection] = []
        connection = self._connect()
        connection.executescript(_TABLES)
        connection.execute("INSERT INTO stock VALUES (?)", (units,))
        # Reads the totals even while the workers wait for a lock.
        self._reader = connection

    def close(self) -> None:
        self._workers.shutdown(wait=True)
        for connection in self._opened:
            connection.close()

    async def available(self) -> int:
        return await self._run(lambda c: int(c.execute("SELECT available FROM stock").fetchone()[0]))

    async def take(self, buyer_id: str) -> None:
        def work(connection: sqlite3.Connection) -> None:
            connection.execute("UPDATE stock SET available = available - 1")
            connection.execute(_ORDER, (buyer_id,))

        await self._write(work)

    async def take_if_available(self, buyer_id: str) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            taken = connection.execute("UPDATE stock SET available = available - 1 WHERE available >= 1").rowcount
            if taken:
                connection.execute(_ORDER, (buyer_id,))
            return bool(taken)

        return await self._write(work)

    async def record(self, buyer_id: str) -> None:
        await self._write(lambda c: c.execute(_ORDER, (buyer_id,)))

    def totals(self) -> Totals:
        return Totals(*self._reader.execute(_TOTALS).fetchone())

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def transaction(connection: sqlite3.Connection) -> T:
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            return result

        return await self._run(transaction)

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._workers, lambda: work(self._own()))

    def _own(self) -> sqlite3.Connection:
        """The connection of this worker thread."""
        if not hasattr(self._connections, "own"):
            self._connections.own = self._connect()
        connection: sqlite3.Connection = self._connections.own
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.file, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA synchronous = NORMAL")
        self._opened.append(connection)
        return connection
