"""Reads a ledger, live or a copy, in one consistent snapshot without changing it.

SQLite: a read-only connection and one read transaction. A copy on a read-only medium has no place for the shared-memory
files of readers, so it is opened as immutable. A live database is copied first, because a long read would prevent its
write-ahead log from being checkpointed, and the log would grow. PostgreSQL: one read-only transaction with repeatable
read, which blocks no writer.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from holdfast.errors import SettingsError, Unavailable
from holdfast.ledger.engine.postgres import POSTGRES_FAILURES
from holdfast.ledger.engine.url import for_asyncpg
from holdfast.ledger.revision import current_revision, newest_revision, require_usable

T = TypeVar("T")


async def look(url: str, work: Callable[[Connection], T]) -> T:
    """Run `work` on the ledger, whose tables must be those of this version."""

    def checked(connection: Connection) -> T:
        _require_tables(connection)
        return work(connection)

    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _look_into_file(Path(parsed.database or ""), checked)
    return await _look_into_server(parsed, checked)


def _require_tables(connection: Connection) -> None:
    current, newest = current_revision(connection), newest_revision()
    if current is not None and current > newest:
        require_usable(connection)
    elif current != newest:
        raise SettingsError(
            f"the tables are at revision {current or 'nothing'}, this version reads {newest}; run: holdfast migrate"
        )


def _look_into_file(file: Path, work: Callable[[Connection], T]) -> T:
    if not file.is_file():
        raise SettingsError(f"there is no database at {file}")
    with TemporaryDirectory(prefix="holdfast-verify-") as directory:
        engine = _open_file(_copied(file, Path(directory)))
        try:
            with engine.connect() as connection:
                return work(connection)
        except DBAPIError as exc:
            raise Unavailable(f"{file} cannot be read: {exc.orig}") from exc
        finally:
            engine.dispose()


def _copied(file: Path, directory: Path) -> Path:
    """A copy if the file is in use; the file itself if it is not, or if there is no room for a copy."""
    if not file.with_name(f"{file.name}-wal").exists():
        return file
    copy = directory / file.name
    try:
        with (
            closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
    except sqlite3.Error:
        return file
    return copy


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
    address, arguments = for_asyncpg(url, limits={})  # A large ledger takes minutes.
    options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    engine = create_async_engine(address, connect_args=arguments, execution_options=options)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(work)
    except POSTGRES_FAILURES as exc:
        raise Unavailable(f"PostgreSQL is not available: {getattr(exc, 'orig', None) or exc}") from exc
    finally:
        await engine.dispose()
