"""Programs older than the tables: which may use them, and how a migration runs beside them."""

import asyncio
from functools import partial
from itertools import pairwise
from pathlib import Path

import asyncpg
import pytest
from alembic import command
from sqlalchemy import Connection, inspect, text, update
from structlog.testing import capture_logs

import holdfast.ledger.migrate as migrating
from holdfast.cli.doctor.tables import check_revision
from holdfast.errors import SettingsError
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.migrate import migrate
from holdfast.ledger.revision import current_revision, min_reader, newest_revision
from holdfast.ledger.tables.compatibility import compatibility
from holdfast.ledger.upgrade import alembic_config, script_directory
from holdfast.verify.snapshot import look

LATER = "9999"


async def set_revision(database: Database, least: str) -> None:
    def write(connection: Connection) -> None:
        connection.execute(text(f"UPDATE alembic_version SET version_num = '{LATER}'"))
        connection.execute(update(compatibility).values(min_reader=least))

    await database.write(write)


async def test_newer_tables_are_used_as_they_are_while_they_are_open_to_this_version(database_url: str) -> None:
    database = open_database(database_url)
    try:
        await set_revision(database, least=newest_revision())
        assert await migrate(database) == (LATER, LATER)
        assert await database.read(lambda c: check_revision(c).level) == "warn"
    finally:
        await database.close()
    assert await look(database_url, current_revision) == LATER


async def test_newer_tables_that_are_closed_to_this_version_are_refused_and_left_alone(database_url: str) -> None:
    database = open_database(database_url)
    refusal = rf"at revision {LATER}.*revision 9998 or later.*this is {newest_revision()}.*newer one"
    try:
        await set_revision(database, least="9998")
        with pytest.raises(SettingsError, match=refusal):
            await migrate(database)
        assert await database.read(current_revision) == LATER
        assert await database.read(lambda c: check_revision(c).level) == "fail"
    finally:
        await database.close()
    with pytest.raises(SettingsError, match=refusal):
        await look(database_url, current_revision)


async def test_a_migration_gives_way_while_a_transaction_uses_the_tables_and_then_goes_on(
    empty_postgres_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrating, "_PAUSE_S", 0.05)
    database, other = (open_database(empty_postgres_database_url) for _ in range(2))
    user = await asyncpg.connect(empty_postgres_database_url)
    try:
        await database.write(lambda c: command.upgrade(alembic_config(c), "0011"))
        await user.execute("BEGIN; LOCK TABLE pools IN ACCESS SHARE MODE")
        with capture_logs() as logged:
            running = asyncio.create_task(migrate(database))
            async with asyncio.timeout(60.0):
                while "migration_waits_for_lock" not in [entry["event"] for entry in logged]:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        # Waiting for a lock, it would keep out everybody who comes after it.
        await other.write(lambda c: c.execute(text("LOCK TABLE pools IN ROW EXCLUSIVE MODE")))
        assert not running.done()
        await user.execute("COMMIT")
        assert await running == ("0011", newest_revision())
    finally:
        await user.close()
        await database.close()
        await other.close()


def columns_of(connection: Connection) -> dict[tuple[str, str], tuple[str, bool]]:
    """By table and column: the type, and whether an insert may leave it out."""
    inspector = inspect(connection)
    return {
        (table, column["name"]): (repr(column["type"]), bool(column["nullable"] or column["default"]))
        for table in inspector.get_table_names()
        for column in inspector.get_columns(table)
    }


async def test_every_migration_only_adds_what_older_programs_need_not_know_or_closes_the_tables_to_them(
    tmp_path: Path,
) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'empty.db'}")
    revisions = sorted(script.revision for script in script_directory().walk_revisions())

    def upgraded(revision: str, connection: Connection) -> tuple[dict[tuple[str, str], tuple[str, bool]], str | None]:
        command.upgrade(alembic_config(connection), revision)
        return columns_of(connection), min_reader(connection)

    try:
        states = {revision: await database.write(partial(upgraded, revision)) for revision in revisions}
    finally:
        await database.close()
    for one, next_ in pairwise(revisions):
        (before, least_before), (after, least) = states[one], states[next_]
        old_tables = {table for table, _ in before}
        changed = {name for name, column in before.items() if after.get(name) != column}
        required = {name for name in after.keys() - before.keys() if name[0] in old_tables and not after[name][1]}
        is_closed_to_older = least_before is not None and str(least) > least_before
        assert not (changed or required) or is_closed_to_older, (next_, changed | required)
