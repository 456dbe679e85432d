"""`holdfast archive`."""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from holdfast.bootstrap.stores import database_file
from holdfast.cli.ledger import is_new, run, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, print_json
from holdfast.errors import AlreadyRunning, SettingsError
from holdfast.ledger.archive.dropping import drop_archived
from holdfast.ledger.archive.parquet import load_pyarrow
from holdfast.ledger.archive.runs import ArchiveRun
from holdfast.ledger.archive.writing import archive_months
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.server_lock import ServerLock
from holdfast.runtime.private_files import make_private_directory
from holdfast.settings import Settings

app = typer.Typer()

Target = Annotated[
    Path | None,
    typer.Option("--to", metavar="DIR", help="The archive.  [default: HOLDFAST_ARCHIVE_DIRECTORY]", show_default=False),
]
KeepAll = Annotated[bool, typer.Option("--keep-all", help="Delete nothing, whatever HOLDFAST_KEEP_DAYS says.")]
Vacuum = Annotated[
    bool, typer.Option("--vacuum", help="SQLite: also free the space of deleted rows. No server may be running.")
]


class Archived(Struct, frozen=True):
    run: ArchiveRun | None
    dropped: int


@app.command(
    "archive",
    epilog=examples(
        "holdfast archive",
        "holdfast archive --to /mnt/archive --keep-all --json",
        "holdfast verify --archive /mnt/archive",
    ),
)
def archive(
    to: Target = None, keep_all: KeepAll = False, vacuum: Vacuum = False, data: Data = None, as_json: AsJson = False
) -> None:
    """Archive past months as Parquet files, and delete old rows.

    Copies the reservations that ended, all events and the orders of months that are over, next to a running server.
    Then it deletes from the ledger what came to nothing and is older than HOLDFAST_KEEP_DAYS, if that is set. What was
    sold stays. `holdfast verify --archive DIR` proves that the archive is what the ledger was. Run it once a day.
    """
    settings = settings_from(data)
    load_pyarrow()
    if is_new(settings):
        raise SettingsError("there is no database here yet")
    if vacuum and not settings.is_embedded:
        raise SettingsError("--vacuum is for SQLite; PostgreSQL does it automatically (autovacuum)")
    directory = to or settings.archive_path
    make_private_directory(directory)
    keep_days = 0 if keep_all else settings.keep_days
    with _locked(directory):
        done = run(settings, lambda database: _archive(database, directory, keep_days))
    freed = _vacuum(settings) if vacuum else None
    if as_json:
        print_json(_body(done, directory, freed))
    else:
        _print(done, directory, freed, settings)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Two runs at once would write over each other's files, and delete rows that are in neither."""
    lock = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise SettingsError(f"another archive run uses {directory}") from exc
        yield
    finally:
        os.close(lock)


async def _archive(database: Database, directory: Path, keep_days: int) -> Archived:
    added = await archive_months(database, directory)
    dropped = await drop_archived(database, directory, keep_days) if keep_days else 0
    return Archived(added, dropped)


def _vacuum(settings: Settings) -> int:
    """Returns by how many bytes the file shrank."""
    file = database_file(settings)
    with ExitStack() as held:
        try:
            for role in ("server", "worker"):
                held.callback(ServerLock(file, role).acquire().release)
        except AlreadyRunning as exc:
            raise SettingsError(f"--vacuum needs the database to itself: {exc}") from exc
        before = file.stat().st_size
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return before - file.stat().st_size


def _rows(done: Archived) -> dict[str, int]:
    found: dict[str, int] = {}
    for file in [] if done.run is None else done.run.files:
        found[file.table] = found.get(file.table, 0) + file.rows
    return found


def _body(done: Archived, directory: Path, freed: int | None) -> dict[str, object]:
    files = [] if done.run is None else [file.path for file in done.run.files]
    months = [] if done.run is None else sorted({file.month for file in done.run.files})
    shown = {"archive": str(directory), "months": months, "rows": _rows(done), "files": files, "dropped": done.dropped}
    return shown if freed is None else shown | {"freed_bytes": freed}


def _print(done: Archived, directory: Path, freed: int | None, settings: Settings) -> None:
    if done.run is None:
        typer.echo(f"Nothing to archive: no further month of {shown_url(settings)} has ended.")
    else:
        months = sorted({file.month for file in done.run.files})
        rows = ", ".join(f"{number:,} {table}" for table, number in sorted(_rows(done).items()))
        typer.echo(f"Archived {months[0]} to {months[-1]} in {directory}: {rows}.")
    if done.dropped:
        typer.echo(f"Deleted {done.dropped:,} reservations that came to nothing, with their events.")
    elif not settings.keep_days:
        typer.echo("Nothing is deleted: HOLDFAST_KEEP_DAYS is not set.")
    if freed is not None:
        typer.echo(f"The database file is {max(freed, 0):,} bytes smaller.")
