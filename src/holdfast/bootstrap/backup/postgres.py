"""A PostgreSQL ledger: every table by COPY, in one read-only transaction with repeatable read, which blocks no writer.

Back into an empty database: the tables of the backup's revision are created, filled and committed as one transaction,
so that a restore that fails leaves an empty database. Migrations to this version come after it.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Boolean, Connection, Integer, column, delete, inspect, make_url, select, table, text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from holdfast.bootstrap.backup.archive import TABLES, ArchiveWriter, Manifest, TableFacts
from holdfast.errors import SettingsError, Unavailable
from holdfast.ledger.engine.postgres import POSTGRES_FAILURES
from holdfast.ledger.engine.url import for_asyncpg

T = TypeVar("T")
Progress = Callable[[str], None]

# Written by the migrations themselves.
_VERSION = "alembic_version"
_SEQUENCES = """\
SELECT s.relname AS name FROM pg_class s JOIN pg_namespace n ON n.oid = s.relnamespace
WHERE s.relkind = 'S' AND n.nspname = current_schema() ORDER BY 1"""


@asynccontextmanager
async def snapshot_of(url: str) -> AsyncIterator[AsyncConnection]:
    """Everything read from it is of one moment."""
    async with _connected(url, isolation_level="REPEATABLE READ", postgresql_readonly=True) as connection:
        await connection.execute(text("SELECT 1"))
        yield connection


@asynccontextmanager
async def _connected(url: str, **options: object) -> AsyncIterator[AsyncConnection]:
    address, arguments = for_asyncpg(make_url(url), limits={})  # A large ledger takes minutes.
    engine = create_async_engine(address, connect_args=arguments, execution_options=options)
    try:
        async with engine.connect() as connection:
            yield connection
    except POSTGRES_FAILURES as exc:
        raise Unavailable(f"PostgreSQL: {getattr(exc, 'orig', None) or exc}") from exc
    finally:
        await engine.dispose()


async def dump(
    connection: AsyncConnection, archive: ArchiveWriter, directory: Path, progress: Progress
) -> tuple[dict[str, TableFacts], dict[str, int]]:
    """The tables and sequences of a snapshot. One table at a time takes space in the directory."""
    names = await connection.run_sync(lambda sync: sorted(inspect(sync).get_table_names()))
    raw, tables = await _raw(connection), {}
    for number, name in enumerate(names, 1):
        progress(f"table {number} of {len(names)}: {name}")
        columns: list[str] = await connection.run_sync(_columns, name)
        file = directory / name
        status = await raw.copy_from_table(name, output=file, format="text", columns=columns)
        archive.add(f"{TABLES}/{name}", file)
        file.unlink()
        tables[name] = TableFacts(columns, int(str(status).rpartition(" ")[2]))
    found = (await connection.execute(text(_SEQUENCES))).scalars().all()
    sequences: dict[str, int] = {}
    for name in found:
        state = select(column("last_value", Integer), column("is_called", Boolean)).select_from(table(name))
        row = (await connection.execute(state)).one()
        sequences[str(name)] = int(row.last_value) + bool(row.is_called)
    return tables, sequences


async def require_empty(url: str) -> None:
    async with _connected(url) as connection:
        found = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    if found:
        raise SettingsError(
            f"the database has tables already ({', '.join(sorted(found)[:3])} …): a restore never replaces one; "
            "create an empty database and set HOLDFAST_DATABASE_URL to it"
        )


async def load(url: str, directory: Path, manifest: Manifest, progress: Progress) -> None:
    """Everything in one transaction."""
    async with _connected(url) as connection:
        async with connection.begin():
            await connection.run_sync(_create, manifest.revision)
            raw = await _raw(connection)
            for number, (name, facts) in enumerate(manifest.tables.items(), 1):
                progress(f"table {number} of {len(manifest.tables)}: {name}")
                if name != _VERSION:
                    await _fill(connection, raw, name, directory / TABLES / name, facts)
            for name, following in manifest.sequences.items():
                await connection.execute(
                    text("SELECT setval(CAST(:name AS regclass), :following, false)"),
                    {"name": f'"{name}"', "following": following},
                )
        progress("collecting statistics")
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        await connection.execute(text("ANALYZE"))


def _create(connection: Connection, revision: str) -> None:
    from alembic import command  # noqa: PLC0415 - slow to import, and used nowhere else here

    from holdfast.ledger.upgrade import alembic_config  # noqa: PLC0415 - imports Alembic

    command.upgrade(alembic_config(connection), revision)


async def _fill(connection: AsyncConnection, raw: Any, name: str, file: Path, facts: TableFacts) -> None:
    # Migrations put some rows into new tables.
    await connection.execute(delete(table(name)))
    status = await raw.copy_to_table(name, source=file, format="text", columns=facts.columns)
    if int(str(status).rpartition(" ")[2]) != facts.rows:
        raise SettingsError(f"{name} has {status} rows, and the backup says {facts.rows}")


def _columns(connection: Connection, table: str) -> list[str]:
    return [column["name"] for column in inspect(connection).get_columns(table)]


async def _raw(connection: AsyncConnection) -> Any:
    """asyncpg's own connection, in the same transaction."""
    return (await connection.get_raw_connection()).driver_connection
