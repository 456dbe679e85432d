"""A transaction on PostgreSQL: on asyncpg, through SQLAlchemy's bridge."""

from typing import Any, TypeVar

import asyncpg
from sqlalchemy import Connection, event, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from holdfast.domain.breaker import Breaker
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.ledger.clock import POSTGRES_NOW_MS
from holdfast.ledger.database import TRANSACTION_TIMEOUT_S, Work
from holdfast.ledger.postgres_url import for_asyncpg
from holdfast.pulse import Pulse

T = TypeVar("T")

# How long a transaction waits for a connection while others have them all. If they have them because the server does
# not answer, the breaker cuts all of them off long before.
POOL_TIMEOUT_S = 4.0

# Waited too long for a lock, cancelled, in a deadlock, not serializable.
REFUSED = frozenset({"55P03", "57014", "40P01", "40001"})

# While connecting, asyncpg's own errors come through unwrapped.
POSTGRES_FAILURES = (DBAPIError, OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)


def _drop(connection: Any, *_circumstances: object) -> None:
    """Let go of a connection without waiting for the server to agree, which a frozen one never does."""
    connection.driver_connection.terminate()


def _was_refused(exc: BaseException | None) -> bool:
    """Whether the server itself says that it has not done what it was asked for."""
    return isinstance(exc, DBAPIError) and getattr(exc.orig, "sqlstate", None) in REFUSED


class PostgresDatabase:
    dialect_name = "postgresql"

    def __init__(self, url: URL, connections: int) -> None:
        address, arguments = for_asyncpg(url)
        self._connections = connections
        self._engine = create_async_engine(
            address, pool_size=connections, max_overflow=0, pool_timeout=POOL_TIMEOUT_S, connect_args=arguments
        )
        self._engine_at_once = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        self._glancing = self._engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        self._probing = create_async_engine(address, poolclass=NullPool, connect_args=arguments)
        self._pulse = Pulse("postgresql", self._probe)
        for given_up in ("close", "invalidate"):
            for engine in (self._engine, self._probing):
                event.listen(engine.sync_engine, given_up, _drop)
        self._now = select(POSTGRES_NOW_MS)

    @property
    def breaker(self) -> Breaker:
        """Open while the server does not answer."""
        return self._pulse.breaker

    async def write(
        self, work: Work[T], *, timeout_s: float = TRANSACTION_TIMEOUT_S, brief: bool = False, at_once: bool = False
    ) -> T:
        committing = False

        def tracked(connection: Connection) -> T:
            nonlocal committing
            # A statement that commits by itself may have done so whenever its answer is lost.
            committing = at_once
            result = work(connection)
            committing = True
            connection.commit()
            return result

        try:
            return await self._run(self._engine_at_once if at_once else self._engine, tracked, timeout_s)
        except Unavailable as exc:
            if committing and not (at_once and _was_refused(exc.__cause__)):
                raise OutcomeUnknown("the commit may or may not have happened") from exc
            raise

    async def read(self, work: Work[T]) -> T:
        return await self._run(self._engine, work, TRANSACTION_TIMEOUT_S)

    async def glance(self, work: Work[T]) -> T:
        return await self._run(self._glancing, work, TRANSACTION_TIMEOUT_S)

    async def _run(self, engine: AsyncEngine, work: Work[T], timeout_s: float) -> T:
        try:
            async with self._pulse.call(timeout_s), engine.connect() as connection:
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

    def known_now_ms(self) -> int | None:
        return None

    async def close(self) -> None:
        await self._pulse.close()
        await self._engine.dispose()
        await self._probing.dispose()
