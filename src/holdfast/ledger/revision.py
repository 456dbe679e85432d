"""Which revision the database has, which one this version needs, and whether this version may use it. Does not load
Alembic, which is slow to import.

Rolling upgrades. Migrations only add tables and columns, with defaults for programs that do not know them, so a program
may use a database of a later revision. Unused columns are removed in a later release, by a migration that also raises
`min_reader`: programs below it are refused.
"""

from pathlib import Path

from sqlalchemy import Connection, column, inspect, select, table

from holdfast.errors import SettingsError
from holdfast.ledger.tables.compatibility import compatibility

MIGRATIONS = Path(__file__).parent / "migrations"


def newest_revision() -> str:
    """Read from the names of the files."""
    return max(script.name.partition("_")[0] for script in (MIGRATIONS / "versions").glob("[0-9]*.py"))


def current_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(select(column("version_num")).select_from(table("alembic_version"))).scalar()


def min_reader(connection: Connection) -> str | None:
    """The lowest revision of a program that may use this database; None if the database does not say."""
    if not inspect(connection).has_table(compatibility.name):
        return None
    return connection.execute(select(compatibility.c.min_reader)).scalar()


def is_usable(connection: Connection) -> bool:
    """Whether it has everything this version needs and admits this version."""
    current, newest = current_revision(connection), newest_revision()
    if current is None or current <= newest:
        return current == newest
    return (min_reader(connection) or current) <= newest


def require_usable(connection: Connection) -> str:
    """The revision; refuses a database of a newer version that this one may not use."""
    current, newest = current_revision(connection), newest_revision()
    if current is None or not is_usable(connection):
        least = min_reader(connection) or current
        raise SettingsError(
            f"the database is at revision {current} and open to programs of revision {least} or later; this is "
            f"{newest}. Run the version that upgraded it, or a newer one"
        )
    return current
