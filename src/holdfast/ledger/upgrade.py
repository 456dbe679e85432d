"""Runs Alembic inside one of our transactions."""

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, func, select

from holdfast.errors import SettingsError
from holdfast.ledger.engine.clock import POSTGRES_NOW_MS
from holdfast.ledger.engine.heartbeats import processes_before
from holdfast.ledger.revision import MIGRATIONS, current_revision, min_reader, require_usable

# Arbitrary, but the same in every version of Holdfast.
_LOCK_ID = 0x686F6C64
# Shorter than PostgreSQL's `deadlock_timeout` and than any of our transactions waits.
_TABLE_LOCK_MS = 500
# Processes write every second.
_ALIVE_MS = 5_000


def upgrade(connection: Connection) -> str | None:
    """To the newest revision; returns the one before."""
    is_shared = connection.dialect.name == "postgresql"
    if is_shared:
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK_ID)))
        connection.execute(select(func.set_config("lock_timeout", str(_TABLE_LOCK_MS), True)))
    current = current_revision(connection)
    scripts = script_directory()
    newest = scripts.get_current_head()
    if current is not None and current > str(newest):
        return require_usable(connection)
    if current is not None and current not in {script.revision for script in scripts.walk_revisions()}:
        raise SettingsError(
            f"the database is at revision {current}, which this version does not know: it comes from before the first "
            "release; run that version, or start with a new database"
        )
    if current != newest:
        least = min_reader(connection)
        command.upgrade(alembic_config(connection), "head")
        if is_shared and least is not None:
            _require_no_older_process(connection, min_reader(connection) or least)
    return current


def _require_no_older_process(connection: Connection, least: str) -> None:
    since: int = connection.execute(select(POSTGRES_NOW_MS)).scalar_one() - _ALIVE_MS
    running = processes_before(connection, least, since=since)
    if running:
        raise SettingsError(
            f"{running} running processes are older than {least}, the least that can use the tables after this "
            "upgrade. Nothing was changed. Upgrade them to the release before this one, or stop them; then start again"
        )


def script_directory() -> ScriptDirectory:
    return ScriptDirectory.from_config(alembic_config())


def alembic_config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("recursive_version_locations", "true")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
