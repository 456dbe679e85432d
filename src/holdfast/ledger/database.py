"""One way to run a transaction, on SQLite and on PostgreSQL.

Work is a plain function of a SQLAlchemy connection. PostgreSQL runs it on asyncpg through SQLAlchemy's bridge. SQLite
runs it on a thread of its own (`sqlite.py`), one hop per transaction instead of one per statement
(docs/adr/0002-work-as-functions.md).

A failure before COMMIT is `Unavailable`: nothing happened. A failure of COMMIT itself is `OutcomeUnknown`: the caller
must not be told either way. CHECK violations pass through as they are, because they mean a defect and not an outage.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from sqlalchemy import Connection, make_url

T = TypeVar("T")
Work = Callable[[Connection], T]

# A transaction that takes longer than this is cut off: callers are better served by a quick retryable error.
TRANSACTION_TIMEOUT_S = 5.0


class Database(Protocol):
    dialect_name: str

    async def write(
        self, work: Work[T], *, timeout_s: float = TRANSACTION_TIMEOUT_S, brief: bool = False, at_once: bool = False
    ) -> T:
        """Run `work` in one transaction; when this returns, it is on disk. Brief work may keep the event loop. Work at
        once is a single statement: PostgreSQL commits it by itself, in one round trip instead of three."""

    async def read(self, work: Work[T]) -> T:
        """Run `work` on a consistent view, without waiting for writers."""

    async def glance(self, work: Work[T]) -> T:
        """Run brief work that only reads, on a consistent view, as cheaply as can be."""

    def now_ms(self, connection: Connection) -> int:
        """The engine's clock."""

    def known_now_ms(self) -> int | None:
        """The same, where it is known without a question; None on PostgreSQL, whose statements can tell it along with
        what they are for (`POSTGRES_NOW_MS`)."""

    async def close(self) -> None: ...


def open_database(url: str, *, connections: int = 8) -> Database:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        from holdfast.ledger.sqlite import SqliteDatabase  # noqa: PLC0415 - it needs what is above

        return SqliteDatabase(parsed)
    # Its driver takes longer to load than the whole of SQLite.
    from holdfast.ledger.postgres import PostgresDatabase  # noqa: PLC0415 - see above

    return PostgresDatabase(parsed, connections)
