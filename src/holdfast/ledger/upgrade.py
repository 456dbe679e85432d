"""Alembic, run inside a transaction of ours."""

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, func, select

from holdfast.errors import SettingsError
from holdfast.ledger.migrate import MIGRATIONS, current_revision

# Any number will do, as long as every version of Holdfast uses the same one.
_LOCK_ID = 0x686F6C64


def upgrade(connection: Connection) -> str | None:
    """To the newest revision; gives the one before."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK_ID)))
    current = current_revision(connection)
    scripts = script_directory()
    if current is not None and current not in {script.revision for script in scripts.walk_revisions()}:
        raise SettingsError(
            f"the database is at revision {current}, which this version does not know: "
            "it was upgraded by a newer Holdfast; run that version or a newer one"
        )
    if current != scripts.get_current_head():
        command.upgrade(_config(connection), "head")
    return current


def script_directory() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
