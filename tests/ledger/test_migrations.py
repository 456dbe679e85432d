"""Migrations: they lead to the tables that are declared, from wherever and however often they are started."""

import asyncio
import os
import sqlite3
import sys
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, inspect, text

from holdfast.errors import SettingsError
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.migrate import migrate
from holdfast.ledger.revision import current_revision, newest_revision
from holdfast.ledger.schema import metadata
from holdfast.ledger.upgrade import script_directory


async def test_alembic_finds_no_difference_to_the_declared_tables(database: Database) -> None:
    def differences(connection: Connection) -> list[Any]:
        options = {"compare_type": True, "compare_server_default": True}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))

    assert await database.read(differences) == []


def test_the_names_of_the_files_tell_the_newest_revision() -> None:
    assert newest_revision() == script_directory().get_current_head()


def options_of(index: Any) -> dict[str, str]:
    return {name: str(value) for name, value in index.get("dialect_options", {}).items()}


def described(connection: Connection) -> dict[str, object]:
    """All there is to know about the tables, constraints and indexes too, which Alembic does not compare in full."""
    inspector = inspect(connection)
    return {
        name: (
            [(c["name"], repr(c["type"]), c["nullable"]) for c in inspector.get_columns(name)],
            inspector.get_pk_constraint(name)["constrained_columns"],
            sorted((c["name"], c["sqltext"]) for c in inspector.get_check_constraints(name)),
            sorted((i["name"], i["column_names"], options_of(i)) for i in inspector.get_indexes(name)),
        )
        for name in inspector.get_table_names()
        if name != "alembic_version"
    }


def triggers(connection: Connection) -> dict[str, str]:
    if connection.dialect.name == "sqlite":
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    else:
        query = """SELECT t.tgname, pg_get_triggerdef(t.oid) || f.prosrc FROM pg_trigger t
            JOIN pg_proc f ON f.oid = t.tgfoid WHERE NOT t.tgisinternal"""
    return {name: " ".join(definition.split()) for name, definition in connection.execute(text(query))}


async def test_the_migrated_tables_are_the_declared_ones_to_the_letter(
    database: Database, empty_database_url: str
) -> None:
    declared = open_database(empty_database_url)
    try:
        await declared.write(metadata.create_all)
        assert await database.read(described) == await declared.read(described)
        declared_triggers = await declared.read(triggers)
        await declared.write(metadata.drop_all)
        await migrate(declared)
        assert await declared.read(triggers) == declared_triggers != {}
    finally:
        await declared.close()


async def test_migrating_says_from_where_to_where_and_then_has_nothing_to_do(empty_database_url: str) -> None:
    database = open_database(empty_database_url)
    try:
        newest = newest_revision()
        assert await migrate(database) == (None, newest)
        assert await migrate(database) == (newest, newest)
        assert await database.read(current_revision) == newest
    finally:
        await database.close()


async def migrate_at_once(url: str) -> list[str | None]:
    """Migrate six times at the same time; gives the revisions that were found."""
    async with AsyncExitStack() as stack:
        opened = [open_database(url, connections=2) for _ in range(6)]
        for database in opened:
            stack.push_async_callback(database.close)
        return [before for before, _ in await asyncio.gather(*map(migrate, opened))]


async def test_many_may_migrate_at_once_and_one_does_it(empty_database_url: str) -> None:
    found = await migrate_at_once(empty_database_url)
    assert Counter(found) == {None: 1, newest_revision(): 5}


async def test_opening_a_file_that_another_is_making_waits_for_it(tmp_path: Path) -> None:
    maker = sqlite3.connect(tmp_path / "new.db", isolation_level=None)
    maker.execute("BEGIN IMMEDIATE")
    database = open_database(f"sqlite:///{tmp_path / 'new.db'}")
    opening = asyncio.create_task(migrate(database))
    done, _ = await asyncio.wait([opening], timeout=0.3)
    maker.execute("COMMIT")
    maker.close()
    assert not done
    await opening
    await database.close()


@pytest.mark.slow
async def test_processes_may_migrate_at_once(empty_database_url: str, tmp_path: Path) -> None:
    environment = os.environ | {"HOLDFAST_DATABASE_URL": empty_database_url, "HOLDFAST_DATA": str(tmp_path)}
    command = [sys.executable, "-m", "holdfast", "migrate"]
    processes = [await asyncio.create_subprocess_exec(*command, env=environment) for _ in range(3)]
    assert await asyncio.gather(*[process.wait() for process in processes]) == [0, 0, 0]


async def test_a_database_from_before_the_first_release_is_refused_and_left_alone(database_url: str) -> None:
    database = open_database(database_url)
    try:
        await database.write(lambda c: c.execute(text("UPDATE alembic_version SET version_num = '0010'")))
        with pytest.raises(SettingsError, match=r"0010.*does not know.*new database"):
            await migrate(database)
        assert await database.read(current_revision) == "0010"
    finally:
        await database.close()
