"""The files of the data directory that a backup has, besides the database.

Keys and secrets, signed checkpoints, and the segments of the audit. Not what belongs to one run (locks, sockets) or to
one server's memory of its ledger: a mark that came back with the ledger could never show that the ledger went back.
"""

import shutil
from pathlib import Path

from holdfast.bootstrap.backup.archive import FILES, ArchiveWriter
from holdfast.bootstrap.stores import database_file
from holdfast.errors import SettingsError
from holdfast.runtime.private_files import make_private_directory
from holdfast.settings import Settings

_NAMED = ("service_key", "buyer_secret", "signing_key", "checkpoints.jsonl")
# Several servers may have appended to their own.
_KEPT_IF_THERE = ("checkpoints.jsonl",)


def add_files(settings: Settings, archive: ArchiveWriter, *, with_audit: bool) -> list[str]:
    found = [settings.data / name for name in _NAMED if (settings.data / name).is_file()]
    if with_audit and settings.audit_directory.is_dir():
        found += [path for path in sorted(settings.audit_directory.rglob("*")) if path.is_file()]
    names = []
    for path in found:
        name = path.relative_to(settings.data).as_posix()
        try:
            archive.add(f"{FILES}/{name}", path)
        except FileNotFoundError:
            continue  # A segment that was deleted for its age.
        names.append(name)
    return names


def require_room(settings: Settings, directory: Path) -> None:
    """A key that is there already must be the one of the backup."""
    for name in _NAMED:
        there, ours = settings.data / name, directory / FILES / name
        if name in _KEPT_IF_THERE or not there.exists() or not ours.exists():
            continue
        if there.read_bytes() != ours.read_bytes():
            raise SettingsError(f"{there} is not the one of the backup; move it away, or restore into another --data")


def put_files(settings: Settings, directory: Path) -> list[str]:
    """Those that are not there yet."""
    make_private_directory(settings.data)
    put, root = [], directory / FILES
    for path in sorted(root.rglob("*")) if root.is_dir() else []:
        target = settings.data / path.relative_to(root)
        if path.is_file() and not target.exists() and target != database_file(settings):
            make_private_directory(target.parent)
            shutil.move(path, target)
            put.append(path.relative_to(root).as_posix())
    return put
