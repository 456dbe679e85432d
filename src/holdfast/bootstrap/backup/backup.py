"""Takes a backup of a running ledger and proves it, and restores one into an empty place."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time

from msgspec import Struct
from sqlalchemy import Connection

from holdfast import __version__
from holdfast.bootstrap.backup import postgres, sqlite
from holdfast.bootstrap.backup.archive import DATABASE, ArchiveWriter, Manifest, TableFacts, extract, new_archive
from holdfast.bootstrap.backup.files import add_files, put_files, require_room
from holdfast.bootstrap.backup.journal import journal_lag
from holdfast.bootstrap.marks import compare_kept
from holdfast.bootstrap.stores import database_file, open_ledger
from holdfast.errors import SettingsError
from holdfast.ledger.events.webhooks import latest_seq
from holdfast.ledger.revision import current_revision, newest_revision
from holdfast.runtime.private_files import make_private_directory
from holdfast.runtime.times import rfc3339
from holdfast.settings import Settings
from holdfast.verify.check import Finding
from holdfast.verify.prove import prove
from holdfast.verify.snapshot import look

Progress = Callable[[str], None]


class Backup(Struct, frozen=True):
    file: Path
    manifest: Manifest
    data_files: list[str]
    # None if it was not wanted.
    findings: list[Finding] | None

    @property
    def bytes(self) -> int:
        return self.file.stat().st_size


class Restored(Struct, frozen=True):
    manifest: Manifest
    data_files: list[str]
    findings: list[Finding] | None
    # Data that a server or Redis has seen of this ledger and the backup lacks.
    went_back: list[str]


class _Facts(Struct, frozen=True):
    revision: str
    events: int
    tables: dict[str, TableFacts]
    findings: list[Finding] | None
    sequences: dict[str, int] = {}


async def back_up(settings: Settings, file: Path, *, verified: bool, with_audit: bool, progress: Progress) -> Backup:
    with TemporaryDirectory(dir=file.parent, prefix=".holdfast-backup-") as scratch, new_archive(file) as archive:
        # Before the snapshot: what is drained in between is counted, and in the backup all the same.
        lag = await journal_lag(settings) if settings.has_redis else None
        taken = _of_file if settings.is_embedded else _of_server
        facts = await taken(settings, archive, Path(scratch), verified, progress)
        progress("files of the data directory")
        names = add_files(settings, archive, with_audit=with_audit)
        manifest = archive.finish(_manifest(settings, facts, lag))
    return Backup(file, manifest, names, facts.findings)


def _manifest(settings: Settings, facts: _Facts, lag: int | None) -> Manifest:
    engine, at = "sqlite" if settings.is_embedded else "postgresql", rfc3339(int(time() * 1000))
    return Manifest(
        engine, __version__, facts.revision, at, facts.events, facts.tables, facts.sequences, journal_lag=lag
    )


async def _of_file(
    settings: Settings, archive: ArchiveWriter, scratch: Path, verified: bool, progress: Progress
) -> _Facts:
    file = database_file(settings)
    if not file.is_file():
        raise SettingsError(f"there is no database at {file}")
    copy = scratch / DATABASE
    sqlite.copy_database(file, copy, progress)

    def examine(connection: Connection) -> _Facts:
        return _facts(connection, sqlite.tables_of(connection), verified, progress)

    facts = await look(f"sqlite:///{copy}", examine)
    progress("writing the archive")
    archive.add(DATABASE, copy)
    return facts


async def _of_server(
    settings: Settings, archive: ArchiveWriter, scratch: Path, verified: bool, progress: Progress
) -> _Facts:
    async with postgres.snapshot_of(settings.database_url) as connection:
        tables, sequences = await postgres.dump(connection, archive, scratch, progress)
        return await connection.run_sync(_facts, tables, verified, progress, sequences)


def _facts(
    connection: Connection,
    tables: dict[str, TableFacts],
    verified: bool,
    progress: Progress,
    sequences: dict[str, int] | None = None,
) -> _Facts:
    """In the same snapshot as the copy."""
    revision = current_revision(connection)
    if revision is None:
        raise SettingsError("the database has no tables of Holdfast")
    findings = _prove(connection, progress) if verified else None
    return _Facts(revision, latest_seq(connection), tables, findings, sequences or {})


def _prove(connection: Connection, progress: Progress) -> list[Finding]:
    return prove(connection, lambda number, check: progress(f"verifying, check {number + 1}: {check.name}"))


async def restore(settings: Settings, file: Path, *, verified: bool, progress: Progress) -> Restored:
    if settings.is_embedded:
        sqlite.require_none(database_file(settings))
    else:
        await postgres.require_empty(settings.database_url)
    # A file can be moved to its place only within one filesystem.
    beside = database_file(settings).parent if settings.is_embedded else settings.data
    make_private_directory(beside)
    with TemporaryDirectory(dir=beside, prefix=".restore-") as scratch:
        directory = Path(scratch)
        progress("reading the archive")
        manifest = extract(file, directory)
        _require_fitting(settings, manifest)
        require_room(settings, directory)
        if settings.is_embedded:
            sqlite.put_database(directory / DATABASE, database_file(settings))
        else:
            await postgres.load(settings.database_url, directory, manifest, progress)
        names = put_files(settings, directory)
    # With the tables of this version.
    async with open_ledger(settings) as database:
        went_back = [finding for finding, _ in await compare_kept(settings, database)]
    findings = await look(settings.database_url, lambda c: _prove(c, progress)) if verified else None
    return Restored(manifest, names, findings, went_back)


def _require_fitting(settings: Settings, manifest: Manifest) -> None:
    target = "sqlite" if settings.is_embedded else "postgresql"
    if manifest.engine != target:
        raise SettingsError(f"this is a backup of {manifest.engine}, and HOLDFAST_DATABASE_URL names {target}")
    if manifest.revision > newest_revision():
        raise SettingsError(
            f"this is a backup of Holdfast {manifest.version}, whose tables are newer than this version's; "
            "restore it with that version"
        )
