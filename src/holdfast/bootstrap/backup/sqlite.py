"""A SQLite ledger, copied while it is written to.

SQLite's backup reads one snapshot: the read transaction that is open here stays open from the first page to the last.
Writers do not wait for it; only their write-ahead log cannot be cut back until it is over.
"""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, func, inspect, select, table

from holdfast.bootstrap.backup.archive import TableFacts
from holdfast.errors import SettingsError, Unavailable
from holdfast.ledger.engine.server_lock import ServerLock
from holdfast.runtime.private_files import make_private_directory

Progress = Callable[[str], None]

# Pages between two reports.
_PORTION = 20_000


def copy_database(file: Path, copy: Path, progress: Progress) -> None:
    def report(_status: int, remaining: int, total: int) -> None:
        progress(f"copying the database: {100 * (total - remaining) // max(total, 1)} %")

    try:
        with (
            closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            copy.chmod(0o600)
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_master").fetchone()
            source.backup(target, pages=_PORTION, progress=report)
            # As one file, without a log beside it.
            target.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as exc:
        raise Unavailable(f"{file} cannot be copied: {exc}") from exc


def tables_of(connection: Connection) -> dict[str, TableFacts]:
    inspector = inspect(connection)
    return {
        name: TableFacts(
            [column["name"] for column in inspector.get_columns(name)],
            connection.execute(select(func.count()).select_from(table(name))).scalar_one(),
        )
        for name in sorted(inspector.get_table_names())
    }


def require_none(file: Path) -> None:
    for name in (file.name, f"{file.name}-wal", f"{file.name}-shm"):
        if file.with_name(name).exists():
            raise SettingsError(f"{file.with_name(name)} exists: a restore never replaces a database; move it away")


def put_database(copy: Path, file: Path) -> None:
    """Move a copy to its place, if there is nothing yet and no server runs there."""
    make_private_directory(file.parent)
    require_none(file)
    locks = [ServerLock(file, role).acquire() for role in ("server", "worker")]
    try:
        _replace_empty(copy, file)
        directory = os.open(file.parent, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
    finally:
        for lock in locks:
            lock.release()


def _replace_empty(copy: Path, file: Path) -> None:
    """Acquiring the locks has made an empty file of this name. If it stayed, it would refuse the next restore."""
    try:
        copy.replace(file)
    except OSError:
        file.unlink(missing_ok=True)
        raise
