"""One way to run a transaction, on SQLite and on PostgreSQL.

Work is a plain function of a SQLAlchemy connection. PostgreSQL runs it on asyncpg through SQLAlchemy's bridge. SQLite
runs it on a thread of its own (`sqlite.py`), one hop per transaction instead of one per statement
(docs/adr/0002-transactions-are-plain-functions.md).

A failure before COMMIT is `Unavailable`: nothing happened. A failure of COMMIT itself is `OutcomeUnknown`, unless the
database says that it did not commit: the caller must not be given either answer. CHECK violations are not translated,
because they mean a defect and not an outage.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

from sqlalchemy import Connection

from holdfast.ledger.engine.guard import LedgerGuard

T = TypeVar("T")
Work = Callable[[Connection], T]

# A transaction that takes longer than this is cut off: callers are better served by a quick retryable error.
TRANSACTION_TIMEOUT_S = 5.0
# Set in the `info` of a connection to a replica, whose host has a clock of its own.
IS_REPLICA = "holdfast_is_replica"
# Set in the `info` of an autocommit connection until something is written on it.
ONLY_READ = "holdfast_only_read"


class Database(Protocol):
    dialect_name: str
    guard: LedgerGuard

    async def write(
        self, work: Work[T], *, timeout_s: float = TRANSACTION_TIMEOUT_S, brief: bool = False, autocommit: bool = False
    ) -> T:
        """Run `work` in one transaction; when this returns, it is on disk. Brief work may block the event loop. With
        `autocommit` it writes a single statement, which PostgreSQL commits in one round trip instead of three."""

    async def read(self, work: Work[T]) -> T:
        """Run `work` on a consistent view, without waiting for writers."""

    async def lock_free_read(self, work: Work[T]) -> T:
        """Run brief work that only reads, on a consistent view, without taking a lock or waiting for the disk."""

    def now_ms(self, connection: Connection) -> int:
        """The engine's time, which no step of its clock changes (`runtime/engine_clock.py`)."""

    def known_now_ms(self) -> int | None:
        """The same, without a query; None on PostgreSQL until its clock was first read. Statements read it along with
        their results then (`POSTGRES_NOW_MS`)."""

    def clock_step_ms(self) -> int:
        """How far the clock of the engine's host was set; 0 if it was not."""

    async def close(self) -> None: ...


@runtime_checkable
class SharedDatabase(Database, Protocol):
    """One that several processes use."""

    async def read_statement(self, work: Work[T]) -> T:
        """Run work that is a single statement and only reads, in one round trip."""


@runtime_checkable
class Monitored(Protocol):
    """A database that heartbeats watch."""

    # Writes that it could not do, so that a heartbeat can look closer.
    failed_writes: int
    # When a write that changed rows was last committed, by `monotonic()`.
    wrote_at: float

    def keep_probe_open(self) -> None:
        """Have a connection ready for finding out whether the server answers."""

    def trouble(self) -> str | None:
        """What will stop it unless an operator acts, if anything."""
