"""The embedded database: its file, how it is written, and who has it open."""

import os
import shlex
import sqlite3
from pathlib import Path

from sqlalchemy import Connection

from holdfast.cli.checks.filesystem import check_filesystem
from holdfast.cli.checks.finding import Finding, fail, ok, warn
from holdfast.cli.checks.host import check_disk
from holdfast.cli.checks.tables import check_future, check_revision, check_skew
from holdfast.engines import database_file
from holdfast.errors import EngineError
from holdfast.ledger.clock import clock_file, own_clock, shared_clock
from holdfast.ledger.database import open_database
from holdfast.ledger.server_lock import ServerLock
from holdfast.settings import Settings

# `->>`, with which rows are read, came with this version.
LEAST_SQLITE = (3, 38)
_HEADER = b"SQLite format 3\0"
_WAL_VERSION = 2
_SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
# A look at every page takes a second or so up to here; more would keep a person waiting.
_LOOK_THROUGH_MAX_BYTES = 256 * 1024**2


async def examine_sqlite(settings: Settings) -> list[Finding]:
    file = database_file(settings).resolve()
    broken = check_file(file)
    inside = [broken] if broken else await _examine_inside(settings, file)
    return [
        *inside,
        check_version(sqlite3.sqlite_version_info),
        check_filesystem(file),
        check_disk(file.parent),
        check_clock(file),
        check_server(file),
    ]


def check_version(version: tuple[int, ...]) -> Finding:
    found = f"SQLite {'.'.join(map(str, version))}"
    if version < LEAST_SQLITE:
        return fail("engine", f"{found}; 3.38 or newer is needed", "use a newer Python: uv python install 3.13")
    return ok("engine", found)


def check_file(file: Path) -> Finding | None:
    """What keeps the file from being opened as it is, if anything."""
    if not file.exists():
        return warn("database", f"there is none at {file} yet; the first start makes it", "holdfast serve")
    try:
        with file.open("rb") as opened:
            header = opened.read(20)
    except OSError as exc:
        mend = f'sudo chown "$USER" {shlex.quote(str(file))}*'
        return fail("database", f"{file} cannot be read: {exc.strerror}", mend)
    if not header:
        return warn("database", f"{file} is empty; the next start fills it", "holdfast migrate")
    if not header.startswith(_HEADER):
        quoted = shlex.quote(str(file))
        mend = f"restore a backup, or begin anew: mv {quoted} {quoted}.broken"
        return fail("database", f"{file} is not a SQLite database", mend)
    if header[18:20] != bytes([_WAL_VERSION, _WAL_VERSION]):
        return warn("durability", f"{file} is not in WAL mode; the next start switches it", "holdfast migrate")
    return None


async def _examine_inside(settings: Settings, file: Path) -> list[Finding]:
    database = open_database(settings.database_url)
    try:
        return await database.read(lambda connection: _look_inside(connection, file, database.now_ms(connection)))
    except EngineError as exc:
        return [fail("database", f"{file}: {exc}", _how_to_open(file))]
    finally:
        await database.close()


def _look_inside(connection: Connection, file: Path, now_ms: int) -> list[Finding]:
    findings = [check_pages(connection, file), check_revision(connection), check_durability(connection)]
    return [*findings, *check_future(connection, now_ms)]


def check_pages(connection: Connection, file: Path) -> Finding:
    size = file.stat().st_size
    found = f"{file}, {size / 1024**2:,.1f} MiB"
    if size > _LOOK_THROUGH_MAX_BYTES:
        return ok("database", found)
    answer = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
    if answer == "ok":
        return ok("database", f"{found}, every page in order")
    return fail("database", f"{file} is damaged: {answer}", f"stop the server and restore a backup of {file}")


def check_durability(connection: Connection) -> Finding:
    """As our own connections have it, which is what counts: SQLite keeps `synchronous` per connection."""
    journal = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()
    synchronous = connection.exec_driver_sql("PRAGMA synchronous").scalar_one()
    found = f"journal_mode {journal}, synchronous {_SYNCHRONOUS.get(synchronous, synchronous)}"
    if journal == "wal" and synchronous >= 2:
        return ok("durability", f"{found}: a yes is on disk before it is said")
    return fail("durability", f"{found}; a yes could be lost with the power", "report this: Holdfast sets wal and FULL")


def _how_to_open(file: Path) -> str:
    if not os.access(file.parent, os.W_OK):
        return f'sudo chown -R "$USER" {shlex.quote(str(file.parent))}'
    return f"restore a backup of {file}, or stop whatever keeps it locked: fuser {shlex.quote(str(file))}"


def check_clock(file: Path) -> Finding:
    """All processes on a database count from one reading of the host's clock, which may have been set since then."""
    clock = shared_clock(file) if file.exists() else own_clock()
    quoted = shlex.quote(str(clock_file(file)))
    mend = f"correct this machine's clock; if it is right, stop the server while nothing is held, rm {quoted}, start it"
    return check_skew(clock.drift_ms(), "this machine's clock and the database's", mend)


def check_server(file: Path) -> Finding:
    found = [
        f"a {role} runs (process {pid})" for role in ("server", "worker") if (pid := ServerLock(file, role).owner())
    ]
    return ok("server", "; ".join(found) or "none runs on this database now")
