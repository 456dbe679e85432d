"""Databases for tests: cloned from one that was migrated once, and emptied with one statement.

Migrating takes longer than most tests. A clone is migrated already; a test of the migrations themselves asks for an
empty database instead. Clones lack the triggers that keep history append-only: tests empty them, and play attackers who
would remove the triggers first. What the triggers do is tested on databases that were just migrated.
"""

import asyncio
import shutil
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import asyncpg
from sqlalchemy import Connection, make_url

from holdfast.errors import EngineError
from holdfast.lab.load.engines import postgres
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.migrate import migrate
from holdfast.ledger.schema import metadata

_TEMPLATE = "holdfast_template"
_MIGRATED_WITHIN_S = 300.0


def sqlite_url(file: Path) -> str:
    return f"sqlite:///{file}"


@contextmanager
def postgres_server(*, fsync: bool = False) -> Iterator[str]:
    """A PostgreSQL server with a migrated template; gives its URL.

    It need not sync to disk: no test cuts the power, and what a killed process has written survives in the operating
    system's cache.
    """
    with postgres() as url:
        if not fsync:
            _execute(url, "ALTER SYSTEM SET fsync = off")
            _execute(url, "ALTER SYSTEM SET full_page_writes = off")
            _execute(url, "SELECT pg_reload_conf()")
        _execute(url, f'CREATE DATABASE "{_TEMPLATE}"')
        _migrate(_named(url, _TEMPLATE))
        yield url


def empty_postgres_database(server_url: str) -> str:
    """The URL of a new database without tables."""
    return _create(server_url, "template0")


def new_postgres_database(server_url: str) -> str:
    """The URL of a new database, migrated."""
    return _create(server_url, _TEMPLATE)


def new_sqlite_database(file: Path) -> str:
    """The URL of a new database, migrated."""
    file.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_sqlite_template(), file)
    return sqlite_url(file)


def unprotect(connection: Connection) -> None:
    """Remove the triggers that keep history append-only."""
    if connection.dialect.name == "sqlite":
        names = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").scalars().all()
        for name in names:
            connection.exec_driver_sql(f"DROP TRIGGER {name}")
    else:
        connection.exec_driver_sql("DROP FUNCTION IF EXISTS holdfast_append_only CASCADE")


def sweep(connection: Connection) -> None:
    """Delete every row. PostgreSQL does it in one round trip, SQLite without looking at empty tables twice."""
    if connection.dialect.name == "sqlite":
        for statement in _SQLITE_SWEEP:
            connection.exec_driver_sql(statement)
    else:
        connection.exec_driver_sql(_POSTGRES_SWEEP)


_TABLES = [table.name for table in reversed(metadata.sorted_tables)]
_SQLITE_SWEEP = [f'DELETE FROM "{name}"' for name in _TABLES]
_POSTGRES_SWEEP = "WITH " + ", ".join(f'"_{name}" AS (DELETE FROM "{name}")' for name in _TABLES) + " SELECT 1"
_directory = TemporaryDirectory(prefix="holdfast-template-")


@cache
def _sqlite_template() -> Path:
    file = Path(_directory.name) / "template.db"
    _migrate(sqlite_url(file))
    return file


def _create(server_url: str, template: str) -> str:
    name = f"test_{uuid4().hex}"
    # By default the copy is written to the log, block by block, which takes twice as long.
    _execute(server_url, f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy')
    return _named(server_url, name)


def _named(server_url: str, name: str) -> str:
    return make_url(server_url).set(database=name).render_as_string(hide_password=False)


def _execute(url: str, statement: str) -> None:
    async def execute() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    _run_apart(execute())


def _migrate(url: str) -> None:
    async def run() -> None:
        database = open_database(url)
        try:
            async with asyncio.timeout(_MIGRATED_WITHIN_S):
                while not await _is_migrated(database):  # noqa: ASYNC110 - until the server answers again
                    await asyncio.sleep(0.1)
        finally:
            await database.close()

    _run_apart(run())


async def _is_migrated(database: Database) -> bool:
    """Not if probes of the server timed out meanwhile, as they do on a busy machine: then every call is cut off."""
    try:
        await migrate(database)
        await database.write(unprotect)
    except EngineError:
        return False
    return True


def _run_apart(work: Coroutine[None, None, None]) -> None:
    """On a thread of its own: an async test may be the first that needs the template."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()
