"""The files that store refusals, and their locking protocol.

Each process writes lines of JSON to its own raw segment and holds a lock on it meanwhile. An unlocked raw segment is
finished: its writer closed it, or died. The archivist of any process on the directory locks it, writes a Parquet file
of the same name, and deletes it. Files are created atomically by a rename. After a crash in between, the raw segment is
converted again, or ignored if its Parquet file exists.
"""

import fcntl
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.runtime.private_files import make_private_directory

RAW, PARQUET, DRAFT, OPENING = ".jsonl", ".parquet", ".draft", ".opening"


def started_ms(segment: Path) -> int:
    """When the segment was started, from its name, which survives copying."""
    return int(segment.name.partition("-")[0])


def segment_files(directory: Path) -> list[Path]:
    """All our files, finished or not."""
    named = re.compile(r"\d{13}-[^.]+(\.jsonl|\.parquet|\.draft|\.opening)")
    return [path for path in directory.glob("*") if named.fullmatch(path.name)]


def archived(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"*{PARQUET}"))


def raw(directory: Path) -> list[Path]:
    """The raw segments without a Parquet file."""
    return [path for path in sorted(directory.glob(f"*{RAW}")) if not path.with_suffix(PARQUET).exists()]


class RawSegment:
    """A new file that this process writes to."""

    def __init__(self, directory: Path) -> None:
        make_private_directory(directory)
        name = f"{time.time_ns() // 1_000_000:013}-{os.getpid()}-{secrets.token_hex(4)}"
        self.path = directory / f"{name}{RAW}"
        self.size = 0
        opening = self.path.with_suffix(OPENING)
        self._fd = os.open(opening, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        # Locked before it is visible, so that no archivist takes it for a finished one.
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        opening.rename(self.path)

    def append(self, lines: bytes) -> None:
        """Write all of the lines or none: a partial write on a full disk is truncated."""
        written = 0
        try:
            while written < len(lines):
                written += os.pwrite(self._fd, lines[written:], self.size + written)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, self.size)
            raise
        self.size += written

    def close(self) -> None:
        os.close(self._fd)


@contextmanager
def taken(path: Path) -> Iterator[bool]:
    """Try to lock a finished raw segment for archiving. Yields whether that succeeded."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        yield _lock(fd) and _is_still(path, fd)
    finally:
        os.close(fd)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_still(path: Path, fd: int) -> bool:
    """Another process may have archived and deleted it before we got the lock."""
    return path.exists() and path.stat().st_ino == os.fstat(fd).st_ino


def publish(draft: Path, path: Path) -> None:
    """Sync a finished file to disk and move it to its final name."""
    fd = os.open(draft, os.O_RDONLY)
    try:
        os.fchmod(fd, 0o600)
        os.fsync(fd)
    finally:
        os.close(fd)
    draft.rename(path)
