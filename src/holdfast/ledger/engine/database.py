"""One way to run a transaction, on SQLite and on PostgreSQL.

Work is a plain function of a SQLAlchemy connection. PostgreSQL runs it on asyncpg through SQLAlchemy's bridge. SQLite
runs it on its own thread (`sqlite.py`), with one hop per transaction instead of one per statement
(docs/adr/0002-transactions-are-plain-functions.md).

A failure before COMMIT is `Unavailable`: nothing happened. A failure of COMMIT itself is `OutcomeUnknown`, because the
caller must be told neither success nor failure, unless the database says that it did not commit. CHECK violations are
not translated, because they indicate a defect and not an outage.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

from sqlalchemy import Connection

from holdfast.ledger.engine.guard import LedgerGuard

T = TypeVar("T")
Work = Callable[[Connection], T]

# A transaction that takes longer than this is aborted: callers are better served by a quick retryable error.
TRANSACTION_TIMEOUT_S = 5.0
# Set in the `info` of a connection to a replica, whose host has its own clock.
IS_REPLICA = "holdfast_is_replica"
# Set in the `info` of an autocommit connection until it has written something.
ONLY_READ = "holdfast_only_read"


class Database(Protocol):
    dialect_name: str
    guard: LedgerGuard

    async def write(
        self, work: Work[T], *, timeout_s: float = TRANSACTION_TIMEOUT_S, brief: bool = False, autocommit: bool = False
    ) -> T:
        """Run `work` in one transaction, which is on disk when this returns. Brief work may block the event loop. With
        `autocommit` it writes a single statement, which PostgreSQL commits in one round trip instead of three."""

    async def read(self, work: Work[T]) -> T:
        """Run `work` on a consistent view, without waiting for writers."""

    async def lock_free_read(self, work: Work[T]) -> T:
        """Run brief work that only reads, on a consistent view, without taking a lock or waiting for the disk."""

    def now_ms(self, connection: Connection) -> int:
        """The engine's time, which does not change when the host's clock is set (`runtime/engine_clock.py`)."""

    def known_now_ms(self) -> int | None:
        """The same, without a query. None on PostgreSQL until its clock was first read; until then, statements read the
        time along with their results (`POSTGRES_NOW_MS`)."""

    def clock_step_ms(self) -> int:
        """By how much the clock of the engine's host was set; 0 if it was not."""

    async def close(self) -> None: ...


@runtime_checkable
class SharedDatabase(Database, Protocol):
    """A database that several processes use."""

    async def read_statement(self, work: Work[T]) -> T:
        """Run work that consists of a single reading statement, in one round trip."""


@runtime_checkable
class Monitored(Protocol):
    """A database that heartbeats watch."""

    # Counts failed writes, so that a heartbeat can investigate.
    failed_writes: int
    # When a write that changed rows was last committed, by `monotonic()`.
    wrote_at: float

    def keep_probe_open(self) -> None:
        """Keep a connection ready for probing whether the server responds."""

    def trouble(self) -> str | None:
        """What will stop the database unless an operator acts, if anything."""
