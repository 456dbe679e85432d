"""Bring the database to the tables this version needs. Safe to run from many processes at once."""

from pathlib import Path

from sqlalchemy import Connection, column, inspect, select, table

from holdfast.ledger.database import Database

MIGRATIONS = Path(__file__).parent / "migrations"

# An upgrade may rewrite a large table.
_TIMEOUT_S = 600.0


def newest_revision() -> str:
    """Told by the names of the files, without Alembic, which nearly every start can do without."""
    return max(script.name.partition("_")[0] for script in (MIGRATIONS / "versions").glob("[0-9]*.py"))


def current_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(select(column("version_num")).select_from(table("alembic_version"))).scalar()


async def migrate(database: Database) -> tuple[str | None, str]:
    """Upgrade, and return the revision before and after."""
    newest = newest_revision()
    # Nearly always there is nothing to do, and finding that out must not wait for the lock of a busy server.
    current = await database.read(current_revision)
    if current != newest:
        from holdfast.ledger.upgrade import upgrade  # noqa: PLC0415 - see `newest_revision`

        current = await database.write(upgrade, timeout_s=_TIMEOUT_S)
    return current, newest
