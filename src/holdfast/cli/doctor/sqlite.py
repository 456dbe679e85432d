"""The embedded database: its file, durability, and the processes that use it."""

import os
import shlex
import sqlite3
from pathlib import Path

from sqlalchemy import Connection

from holdfast.bootstrap.stores import database_file
from holdfast.cli.doctor.filesystem import check_filesystem
from holdfast.cli.doctor.finding import Finding, fail, ok, warn
from holdfast.cli.doctor.host import check_disk
from holdfast.cli.doctor.mark import examine_mark
from holdfast.cli.doctor.tables import check_future, check_keys, check_revision, check_skew, check_workers
from holdfast.errors import EngineError
from holdfast.ledger.engine.clock import clock_file, own_clock, shared_clock
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.engine.server_lock import ServerLock
from holdfast.settings import Settings

# The first version with the `->>` operator.
LEAST_SQLITE = (3, 38)
_HEADER = b"SQLite format 3\0"
_WAL_VERSION = 2
_SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
# Checking every page takes about a second up to this size.
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
    """What prevents opening the file, if anything."""
    if not file.exists():
        return warn("database", f"{file} does not exist yet; the first start creates it", "holdfast serve")
    try:
        with file.open("rb") as opened:
            header = opened.read(20)
    except OSError as exc:
        fix = f'sudo chown "$USER" {shlex.quote(str(file))}*'
        return fail("database", f"{file} cannot be read: {exc.strerror}", fix)
    if not header:
        return warn("database", f"{file} is empty; the next start creates the tables", "holdfast migrate")
    if not header.startswith(_HEADER):
        quoted = shlex.quote(str(file))
        fix = f"restore a backup, or start over: mv {quoted} {quoted}.broken"
        return fail("database", f"{file} is not a SQLite database", fix)
    if header[18:20] != bytes([_WAL_VERSION, _WAL_VERSION]):
        return warn("durability", f"{file} is not in WAL mode; the next start switches it", "holdfast migrate")
    return None


async def _examine_inside(settings: Settings, file: Path) -> list[Finding]:
    database = open_database(settings.database_url)
    try:
        found = await database.read(lambda connection: _look_inside(connection, file, database.now_ms(connection)))
        return [*found, *await examine_mark(settings, database)]
    except EngineError as exc:
        return [fail("database", f"{file}: {exc}", _how_to_open(file))]
    finally:
        await database.close()


def _look_inside(connection: Connection, file: Path, now_ms: int) -> list[Finding]:
    findings = [check_pages(connection, file), check_revision(connection), check_durability(connection)]
    return [*findings, *check_future(connection, now_ms), *check_workers(connection, now_ms), *check_keys(connection)]


def check_pages(connection: Connection, file: Path) -> Finding:
    size = file.stat().st_size
    found = f"{file}, {size / 1024**2:,.1f} MiB"
    if size > _LOOK_THROUGH_MAX_BYTES:
        return ok("database", found)
    answer = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
    if answer == "ok":
        return ok("database", f"{found}, all pages intact")
    return fail("database", f"{file} is damaged: {answer}", f"stop the server and restore a backup of {file}")


def check_durability(connection: Connection) -> Finding:
    """As set on our own connections: `synchronous` is per connection."""
    journal = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()
    synchronous = connection.exec_driver_sql("PRAGMA synchronous").scalar_one()
    found = f"journal_mode {journal}, synchronous {_SYNCHRONOUS.get(synchronous, synchronous)}"
    if journal == "wal" and synchronous >= 2:
        return ok("durability", f"{found}: reservations are on disk before they are acknowledged")
    return fail(
        "durability",
        f"{found}; an acknowledged reservation can be lost in a power failure",
        "report this: Holdfast sets wal and FULL",
    )


def _how_to_open(file: Path) -> str:
    if not os.access(file.parent, os.W_OK):
        return f'sudo chown -R "$USER" {shlex.quote(str(file.parent))}'
    return f"restore a backup of {file}, or stop the process that locks it: fuser {shlex.quote(str(file))}"


def check_clock(file: Path) -> Finding:
    """All processes on a database share one reading of the host's clock, which may have been changed since."""
    clock = shared_clock(file) if file.exists() else own_clock()
    quoted = shlex.quote(str(clock_file(file)))
    fix = f"correct this machine's clock; if it is right, stop the server while nothing is held, rm {quoted}, restart"
    return check_skew(clock.drift_ms(), "this machine's clock and the database's", fix)


def check_server(file: Path) -> Finding:
    found = [
        f"a {role} is running (process {pid})"
        for role in ("server", "worker")
        if (pid := ServerLock(file, role).owner())
    ]
    return ok("server", "; ".join(found) or "none is running on this database")
