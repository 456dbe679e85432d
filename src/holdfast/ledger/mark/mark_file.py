"""A mark in the data directory: what a server knows about its ledger after a restart."""

import asyncio
import os
from pathlib import Path
from threading import get_ident

import msgspec
import structlog

from holdfast.ledger.mark.mark import KeptMark
from holdfast.runtime.private_files import make_private_directory

log = structlog.get_logger()


class MarkFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self) -> KeptMark | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=KeptMark)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError:
            log.exception("ledger_mark_unreadable", file=str(self._path))
            return None

    async def write(self, kept: KeptMark) -> None:
        await asyncio.to_thread(write_durably, self._path, msgspec.json.encode(kept))


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file atomically; it is on disk when this returns.

    The thread of a cancelled caller continues to write, so no two threads may share a file either.
    """
    make_private_directory(path.parent)
    new = path.with_name(f"{path.name}.{os.getpid()}-{get_ident()}")
    _write_and_sync(new, content)
    new.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _write_and_sync(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
