"""One consistent look at a ledger, live or a copy, that changes nothing.

SQLite: a connection that cannot write, in one read transaction. A copy on a medium that cannot be written to has no
place for the files that readers share, and is then read as one that nobody changes. While a long look lasts, the
write-ahead log of a live server cannot be folded back into its file, and grows. PostgreSQL: one transaction, read only,
repeatable read; it holds no lock that a writer waits for.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from holdfast.errors import SettingsError, Unavailable
from holdfast.ledger.migrate import current_revision, newest_revision
from holdfast.ledger.postgres import POSTGRES_FAILURES
from holdfast.ledger.postgres_url import for_asyncpg

T = TypeVar("T")


async def look(url: str, work: Callable[[Connection], T]) -> T:
    """What the work finds in the ledger, which must have the tables of this version."""

    def checked(connection: Connection) -> T:
        _require_tables(connection)
        return work(connection)

    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _look_into_file(Path(parsed.database or ""), checked)
    return await _look_into_server(parsed, checked)


def _require_tables(connection: Connection) -> None:
    current, newest = current_revision(connection), newest_revision()
    if current != newest:
        raise SettingsError(
            f"the tables are at revision {current or 'nothing'}, this version reads {newest}; run: holdfast migrate"
        )


def _look_into_file(file: Path, work: Callable[[Connection], T]) -> T:
    if not file.is_file():
        raise SettingsError(f"there is no database at {file}")
    engine = _open_file(file)
    try:
        with engine.connect() as connection:
            return work(connection)
    except DBAPIError as exc:
        raise Unavailable(f"{file} cannot be read: {exc.orig}") from exc
    finally:
        engine.dispose()


def _open_file(file: Path) -> Engine:
    shared = _read_only(file, "mode=ro")
    try:
        with shared.connect() as connection:
            connection.exec_driver_sql("SELECT count(*) FROM sqlite_master")
    except DBAPIError:
        shared.dispose()
        has_log = file.with_name(f"{file.name}-wal").exists()
        return _read_only(file, "mode=ro" if has_log else "mode=ro&immutable=1")
    return shared


def _read_only(file: Path, how: str) -> Engine:
    engine = create_engine(f"sqlite:///{file.resolve().as_uri()}?{how}&uri=true")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


async def _look_into_server(url: URL, work: Callable[[Connection], T]) -> T:
    address, arguments = for_asyncpg(url)
    options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    engine = create_async_engine(address, connect_args=arguments, execution_options=options)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(work)
    except POSTGRES_FAILURES as exc:
        raise Unavailable(f"PostgreSQL is not available: {getattr(exc, 'orig', None) or exc}") from exc
    finally:
        await engine.dispose()
