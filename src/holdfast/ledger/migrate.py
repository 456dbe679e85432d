"""Bring the database to the tables this version needs. Safe to run from many processes at once."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, func, select

from holdfast.errors import SettingsError
from holdfast.ledger.database import Database

# Any number will do, as long as every version of Holdfast uses the same one.
_LOCK_ID = 0x686F6C64

# An upgrade may rewrite a large table.
_TIMEOUT_S = 600.0


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def newest_revision() -> str | None:
    return ScriptDirectory.from_config(_config()).get_current_head()


def current_revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _upgrade(connection: Connection) -> str | None:
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK_ID)))
    current = current_revision(connection)
    scripts = ScriptDirectory.from_config(_config())
    if current is not None and current not in {script.revision for script in scripts.walk_revisions()}:
        raise SettingsError(
            f"the database is at revision {current}, which this version does not know: "
            "it was upgraded by a newer Holdfast; run that version or a newer one"
        )
    if current != scripts.get_current_head():
        command.upgrade(_config(connection), "head")
    return current


async def migrate(database: Database) -> tuple[str | None, str | None]:
    """Upgrade, and return the revision before and after."""
    newest = newest_revision()
    # Nearly always there is nothing to do, and finding that out must not wait for the lock of a busy server.
    current = await database.read(current_revision)
    if current != newest:
        current = await database.write(_upgrade, timeout_s=_TIMEOUT_S)
    return current, newest
