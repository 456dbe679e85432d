"""A transaction on PostgreSQL: on asyncpg, through SQLAlchemy's bridge."""

from math import inf
from time import monotonic
from typing import Any, TypeVar

import asyncpg
from sqlalchemy import Connection, Engine, ExceptionContext, event, select, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool
from sqlalchemy.util import greenlet_spawn

from holdfast.errors import Cause, OutcomeUnknown, Unavailable
from holdfast.ledger.engine.clock import POSTGRES_NOW_MS
from holdfast.ledger.engine.database import IS_REPLICA, ONLY_READ, TRANSACTION_TIMEOUT_S, Work
from holdfast.ledger.engine.guard import LedgerGuard
from holdfast.ledger.engine.heartbeats import last_written_time
from holdfast.ledger.engine.limits import longer_limits
from holdfast.ledger.engine.prepared_postgres import CHANGED
from holdfast.ledger.engine.probe import ProbeConnection
from holdfast.ledger.engine.url import for_asyncpg
from holdfast.runtime.breaker import Breaker
from holdfast.runtime.engine_clock import EngineClock
from holdfast.runtime.store_health import StoreHealth

T = TypeVar("T")

# How long a transaction waits for a connection while all are in use: as long as it would wait for a lock. If the cause
# is that the server does not respond, the breaker cancels the waiting transactions long before that.
POOL_TIMEOUT_S = 2.0

_CAUSES = {"25006": Cause.STORE_READ_ONLY, "53100": Cause.DISK_FULL, "55P03": Cause.LOCK_TIMEOUT}
# A pooler between us and the server may report these as plain errors although it does not know what the server did:
# connection failures, completion unknown, shutdown.
_UNKNOWN = ("08", "40003", "57P")

# While connecting, asyncpg's own errors are not wrapped.
POSTGRES_FAILURES = (DBAPIError, OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)


def _drop(connection: Any, *_circumstances: object) -> None:
    """Drop a connection without waiting for the server, which may be frozen."""
    connection.driver_connection.terminate()


def _refusal(exc: BaseException | None) -> asyncpg.PostgresError | None:
    """The error, if the server itself reports it: the server works, and the transaction did not commit. None for an
    error that ended the session (FATAL, PANIC), because it may arrive instead of the reply to a COMMIT."""
    error = exc.orig.__cause__ if isinstance(exc, DBAPIError) and exc.orig else exc
    if isinstance(error, asyncpg.DataError):  # Also raised by asyncpg, before it sends anything.
        return error
    if not isinstance(error, asyncpg.PostgresError) or (error.sqlstate or "").startswith(_UNKNOWN):
        return None
    return error if (error.severity_en or error.severity) == "ERROR" else None


def _drop_read_only(context: ExceptionContext) -> None:
    """After a failover, sessions may still be connected to a server that is no longer the primary. Treating the first
    one as disconnected makes the pool replace all of them."""
    if getattr(context.original_exception, "sqlstate", None) == asyncpg.ReadOnlySQLTransactionError.sqlstate:
        context.is_disconnect = True


def _note_change(connection: Connection, cursor: Any, _sql: str, _given: object, context: Any, *_: object) -> None:
    """Does not see prepared statements, which note their changes themselves."""
    if (context.isinsert or context.isupdate or context.isdelete) and cursor.rowcount:
        connection.info[CHANGED] = True


def _connected(engine: Engine, work: Work[T], autocommit: bool) -> T:
    with engine.connect() as connection:
        if not autocommit:
            return work(connection)
        # Like the isolation level of that name, without the work SQLAlchemy does to set and reset it each time.
        session: Any = connection.connection.dbapi_connection
        session.autocommit = True
        try:
            return work(connection)
        finally:
            session.autocommit = False


def _last_written_time(connection: Connection) -> int:
    """0 in a database without tables, or with tables from before heartbeats existed."""
    if connection.execute(text("SELECT to_regclass('heartbeats')")).scalar_one() is None:
        return 0
    return last_written_time(connection)


class PostgresDatabase:
    dialect_name = "postgresql"

    def __init__(self, url: URL, connections: int, name: str = "postgresql") -> None:
        self.guard = LedgerGuard()
        address, arguments = for_asyncpg(url)
        self._connections = connections
        self.failed_writes = 0
        self.wrote_at = -inf
        self._engine = create_async_engine(
            address, pool_size=connections, max_overflow=0, pool_timeout=POOL_TIMEOUT_S, connect_args=arguments
        )
        self._lock_free = self._engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        self._probing = create_async_engine(address, poolclass=NullPool, connect_args=arguments)
        self._probe_connection = ProbeConnection(self._probing)
        self._health = StoreHealth(name, self._probe)
        for given_up in ("close", "invalidate"):
            for engine in (self._engine, self._probing):
                event.listen(engine.sync_engine, given_up, _drop)
        event.listen(self._engine.sync_engine, "handle_error", _drop_read_only)
        event.listen(self._engine.sync_engine, "after_cursor_execute", _note_change)
        self._now = select(POSTGRES_NOW_MS)
        self.clock = EngineClock("postgresql")

    @property
    def breaker(self) -> Breaker:
        """Open while the server does not respond."""
        return self._health.breaker

    async def write(
        self, work: Work[T], *, timeout_s: float = TRANSACTION_TIMEOUT_S, brief: bool = False, autocommit: bool = False
    ) -> T:
        self.guard.ensure_open()
        committing = changed = False
        about: dict[Any, Any] = {}

        def tracked(connection: Connection) -> T:
            nonlocal committing, changed, about
            self.guard.check(connection)
            self.guard.ensure_open()
            # An autocommit statement may have committed if its reply is lost.
            committing = autocommit
            if timeout_s > TRANSACTION_TIMEOUT_S:
                connection.execute(longer_limits(timeout_s))
            about = connection.info
            for noted in (CHANGED, ONLY_READ):
                about.pop(noted, None)
            result = work(connection)
            # A single statement that turns out to be insufficient returns None and changes nothing.
            changed = CHANGED in about or (autocommit and ONLY_READ not in about and result is not None)
            committing = True
            connection.commit()
            return result

        try:
            result = await self._run(self._engine, tracked, timeout_s, autocommit=autocommit)
        except Unavailable as exc:
            self.failed_writes += 1
            if committing and ONLY_READ not in about and _refusal(exc.__cause__) is None:
                raise OutcomeUnknown("the commit may or may not have happened") from exc
            raise
        if changed:
            self.wrote_at = monotonic()
        return result

    async def read(self, work: Work[T]) -> T:
        return await self._run(self._engine, self._checked(work), TRANSACTION_TIMEOUT_S)

    async def read_statement(self, work: Work[T]) -> T:
        return await self._run(self._engine, self._checked(work), TRANSACTION_TIMEOUT_S, autocommit=True)

    async def lock_free_read(self, work: Work[T]) -> T:
        return await self._run(self._lock_free, self._checked(work), TRANSACTION_TIMEOUT_S)

    def _checked(self, work: Work[T]) -> Work[T]:
        """If the ledger went back, reads continue, but the guard notices it."""

        def checked(connection: Connection) -> T:
            self.guard.check(connection)
            return work(connection)

        return checked

    async def _run(self, engine: AsyncEngine, work: Work[T], timeout_s: float, *, autocommit: bool = False) -> T:
        try:
            async with self._health.call(timeout_s):
                return await greenlet_spawn(_connected, engine.sync_engine, work, autocommit)
        except IntegrityError:
            raise
        except PoolTimeout as exc:
            in_use = f"all {self._connections} connections to PostgreSQL are in use"
            raise Unavailable(in_use, Cause.CONNECTIONS_IN_USE) from exc
        except POSTGRES_FAILURES as exc:
            refusal = _refusal(exc)
            if refusal is not None:
                raise Unavailable(f"PostgreSQL refused: {refusal}", _CAUSES.get(refusal.sqlstate or "")) from exc
            self._health.failed()
            reason = getattr(exc, "orig", None) or str(exc) or "it did not answer in time"
            raise Unavailable(f"PostgreSQL is not available: {reason}", Cause.STORE_UNREACHABLE) from exc

    def keep_probe_open(self) -> None:
        self._probe_connection.open()

    def trouble(self) -> str | None:
        return None

    async def _probe(self) -> None:
        """On its own connection, so that it does not wait for others."""
        try:
            await self._probe_connection.ask()
        except POSTGRES_FAILURES as exc:
            raise Unavailable(f"PostgreSQL is not available: {exc!r}") from exc

    def now_ms(self, connection: Connection) -> int:
        if self.clock.is_reading_due and IS_REPLICA not in connection.info:
            asked_at = self.clock.elapsed_ms()
            reading = int(connection.execute(self._now).scalar_one())
            if self.clock.now_ms() is None:
                self.clock.start(reading, _last_written_time(connection))
            else:
                self.clock.correct(reading, asked_at)
        return self.clock.now_ms() or 0

    def known_now_ms(self) -> int | None:
        return self.clock.now_ms()

    def clock_step_ms(self) -> int:
        return self.clock.stepped_ms

    async def close(self) -> None:
        await self._health.close()
        await self._engine.dispose()
        await self._probe_connection.close()
        await self._probing.dispose()
