"""The files refusals are kept in, and who may touch which.

A process writes lines of JSON to a raw segment of its own, and holds a lock on it while it does. A raw segment without
a lock is finished: its writer closed it, or died. Whoever finds one (the archivist of any process on this directory)
locks it, writes a Parquet file of the same name beside it, and removes it. Files appear whole, by a rename; a crash in
between leaves the raw segment, which is then done again, or which lies beside its Parquet file and counts no longer.
"""

import fcntl
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

RAW, PARQUET, DRAFT, OPENING = ".jsonl", ".parquet", ".draft", ".opening"


def started_ms(segment: Path) -> int:
    """When the segment was begun; its name says so, and survives copying."""
    return int(segment.name.partition("-")[0])


def segment_files(directory: Path) -> list[Path]:
    """All that is ours, finished or not."""
    named = re.compile(r"\d{13}-[^.]+(\.jsonl|\.parquet|\.draft|\.opening)")
    return [path for path in directory.glob("*") if named.fullmatch(path.name)]


def archived(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"*{PARQUET}"))


def raw(directory: Path) -> list[Path]:
    """Those that are not in a Parquet file yet."""
    return [path for path in sorted(directory.glob(f"*{RAW}")) if not path.with_suffix(PARQUET).exists()]


class RawSegment:
    """A new file that this process writes to."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        name = f"{time.time_ns() // 1_000_000:013}-{os.getpid()}-{secrets.token_hex(4)}"
        self.path = directory / f"{name}{RAW}"
        self.size = 0
        opening = self.path.with_suffix(OPENING)
        self._fd = os.open(opening, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        # Locked before it can be seen: nobody may take it for one that its writer has left.
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        opening.rename(self.path)

    def append(self, lines: bytes) -> None:
        """All of the lines or none: what a full disk cut short is taken back."""
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
    """Whether this finished raw segment is ours to archive; while it is, it is nobody else's."""
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
    """Somebody else may have archived and removed it between our look and our lock."""
    return path.exists() and path.stat().st_ino == os.fstat(fd).st_ino


def publish(draft: Path, path: Path) -> None:
    """Make a finished file appear under its name, once it is on disk."""
    fd = os.open(draft, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    draft.rename(path)
