"""The archive of a backup: a tar file with the ledger, the files of the data directory, and a manifest at its end.

The manifest has the hash of every other member, so that a restore notices an archive that was cut off or changed. The
archive is written beside its place under a random name and gets its own when all of it is on disk; it never replaces a
file. It has keys in it, so only its owner may read it.
"""

import hashlib
import io
import os
import secrets
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec
from msgspec import Struct

from holdfast.errors import SettingsError

FORMAT = 1
MANIFEST = "manifest.json"
DATABASE = "holdfast.db"
TABLES, FILES = "tables", "data"
_CHUNK = 1 << 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class TableFacts(Struct, frozen=True):
    columns: list[str]
    rows: int


class Manifest(Struct, frozen=True):
    engine: str
    version: str
    revision: str
    created_at: str
    events: int
    """The number of the last event in it."""
    tables: dict[str, TableFacts]
    # Of PostgreSQL: the next numbers to be given out.
    sequences: dict[str, int] = {}
    hashes: dict[str, str] = {}
    format: int = FORMAT
    # In Redis mode: entries that the ledger lacked when the backup began. None without Redis, or if it did not answer.
    journal_lag: int | None = None


class _Hashing(io.RawIOBase):
    def __init__(self, source: IO[bytes]) -> None:
        self._source, self.hash = source, hashlib.sha256()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self.hash.update(data)
        return data


class ArchiveWriter:
    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self.hashes: dict[str, str] = {}

    def add(self, name: str, path: Path) -> None:
        """Bytes appended to the file meanwhile are left out."""
        with path.open("rb") as file:
            about = tarfile.TarInfo(name)
            about.size, about.mtime, about.mode = os.fstat(file.fileno()).st_size, int(path.stat().st_mtime), 0o600
            source = _Hashing(file)
            self._tar.addfile(about, source)
            self.hashes[name] = source.hash.hexdigest()

    def finish(self, manifest: Manifest) -> Manifest:
        whole = msgspec.structs.replace(manifest, hashes=self.hashes)
        text = msgspec.json.format(msgspec.json.encode(whole))
        about = tarfile.TarInfo(MANIFEST)
        about.size, about.mode = len(text), 0o600
        self._tar.addfile(about, io.BytesIO(text))
        return whole


@contextmanager
def new_archive(file: Path) -> Iterator[ArchiveWriter]:
    """Complete and on disk when this ends; nothing is left of one that failed."""
    if file.exists():
        raise _exists(file)
    partial = file.with_name(f"{file.name}.{secrets.token_hex(8)}.partial")
    compressed = file.suffix in (".gz", ".tgz")
    try:
        with os.fdopen(os.open(partial, _NEW, 0o600), "wb") as output:
            # Level 1: most of it is ids, which no level makes much smaller, and the higher ones take ten times as long.
            options = {"compresslevel": 1} if compressed else {}
            with tarfile.open(fileobj=output, mode="w:gz" if compressed else "w", **options) as tar:  # type: ignore[call-overload]
                yield ArchiveWriter(tar)
            output.flush()
            os.fsync(output.fileno())
        _publish(partial, file)
    finally:
        partial.unlink(missing_ok=True)


def _publish(partial: Path, file: Path) -> None:
    """Unlike a rename, this does not replace a file that was created meanwhile."""
    try:
        try:
            os.link(partial, file)
        except FileExistsError:
            raise
        except OSError:
            # A filesystem without hard links: the name is taken first, and only what took it is replaced.
            os.close(os.open(file, _NEW, 0o600))
            partial.replace(file)
    except FileExistsError as exc:
        raise _exists(file) from exc


def _exists(file: Path) -> SettingsError:
    return SettingsError(f"{file} exists; choose another name, or remove it")


def extract(file: Path, directory: Path) -> Manifest:
    """Unpack an archive into an empty directory, and check that it is whole."""
    found: dict[str, str] = {}
    try:
        with tarfile.open(file, "r:*") as tar:
            for member in tar:
                source = tar.extractfile(member)
                if source is None or not _is_ours(member.name):
                    raise SettingsError(f"{file} is not a backup of Holdfast: it has {member.name}")
                found[member.name] = _copy(source, directory / member.name)
        manifest = msgspec.json.decode((directory / MANIFEST).read_bytes(), type=Manifest)
    except (tarfile.TarError, EOFError, OSError, msgspec.MsgspecError) as exc:
        # Of a file that is no archive, tarfile says in five lines which kinds it is not.
        [reason, *_] = str(exc).partition(":\n")
        raise SettingsError(f"{file} is not a whole backup: {reason}") from exc
    found.pop(MANIFEST)
    if found != manifest.hashes:
        wrong = sorted(name for name in found.keys() | manifest.hashes if found.get(name) != manifest.hashes.get(name))
        raise SettingsError(f"{file} was changed or cut off: {wrong[0]} is not as it was written")
    if manifest.format != FORMAT:
        raise SettingsError(f"{file} has format {manifest.format}, and this version reads {FORMAT}")
    return manifest


def _is_ours(name: str) -> bool:
    parts = PurePosixPath(name).parts
    is_inside = ".." not in parts and not name.startswith("/")
    return is_inside and (name in (MANIFEST, DATABASE) or (len(parts) > 1 and parts[0] in (TABLES, FILES)))


def _copy(source: IO[bytes], target: Path) -> str:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    hashed = hashlib.sha256()
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as output:
        while data := source.read(_CHUNK):
            hashed.update(data)
            output.write(data)
        output.flush()
        os.fsync(output.fileno())
    return hashed.hexdigest()
