"""Notices that a SQLite file is no longer the one that was opened.

A file that is moved, replaced or deleted under a running server still accepts writes, but they cannot be found after a
restart. So before every commit, and again before it is acknowledged, the path must still lead to the file that was
opened. The same holds for the write-ahead log. That is two calls of stat: a few microseconds next to a sync.

It also notices a file that somebody has emptied or truncated, for example to free disk space. SQLite itself shrinks
both files: the log once all of it is in the database file, and the database file when another program compacts it. So
when a file has become smaller, SQLite is asked how large it has to be (`sqlite_writer.py`) before the file is used.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from holdfast.errors import Cause, EngineError, OutcomeUnknown, Unavailable

Identity = tuple[int, int]
LOG_HEADER_BYTES, FRAME_HEADER_BYTES = 32, 24


class DatabaseFile:
    def __init__(self, path: Path, log_kept_bytes: int) -> None:
        """SQLite truncates the log to `log_kept_bytes` when it restarts it, but never below that."""
        self._log_kept_bytes = log_kept_bytes
        self._database = os.fspath(path.absolute())
        # SQLite resolves symlinks before it names the log.
        self._log = f"{path.resolve()}-wal"
        self._opened: dict[str, Identity] = {}
        # The largest sizes seen.
        self._sizes: dict[str, int] = {}

    def check_opened(self) -> None:
        """Called after a connection was opened: it must be to the same file as the first."""
        self._check(Unavailable, [self._database])

    def check_before_commit(self) -> None:
        """The log exists at this point, because the transaction has begun."""
        self._check(Unavailable, [self._database, self._log])

    def check_committed(self) -> None:
        """If the file is put back, the commit turns out to be there."""
        self._check(OutcomeUnknown, [self._database, self._log])

    def log_bytes(self) -> int:
        """0 if there is none, which the next commit detects."""
        return _size(self._log)

    def log_was_cut_back(self) -> None:
        """Called when this process truncated the log."""
        self._sizes.pop(self._log, None)

    def has_shrunk(self) -> bool:
        return self._is_smaller(self._log) or self._is_smaller(self._database)

    def _is_smaller(self, path: str) -> bool:
        found = _stat(path)
        if found is None or found.st_size >= self._sizes.get(path, 0):
            return False
        return self._opened.get(path) == _identity(found)

    def has_pages(self, pages: int, page_bytes: int) -> bool:
        """Whether the file has as many pages as SQLite says it must have."""
        return _size(self._database) >= pages * page_bytes

    def is_whole(self) -> bool:
        """Checked on a connection with an empty cache. Reads the whole file."""
        existing = f"file:{quote(self._database)}?mode=rw"
        with closing(sqlite3.connect(existing, uri=True)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))

    def has_frames(self, frames: int, page_bytes: int) -> bool:
        """Whether the log has as many frames as SQLite says it must have."""
        return frames <= 0 or self.log_bytes() >= LOG_HEADER_BYTES + frames * (page_bytes + FRAME_HEADER_BYTES)

    def trust_sizes(self) -> None:
        self._sizes.clear()

    def _check(self, error: type[EngineError], paths: list[str]) -> None:
        for path in paths:
            found = _stat(path)
            if found is None or self._opened.setdefault(path, _identity(found)) != _identity(found):
                raise error(f"{path} was moved, replaced or deleted while it was open", Cause.FILE_REPLACED)
            size = found.st_size
            is_kept = path == self._log and size >= self._log_kept_bytes
            if size < self._sizes.get(path, 0) and not is_kept:
                raise error(f"{path} was cut short while it was open", Cause.FILE_REPLACED)
            self._sizes[path] = size


def _identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - a Path takes twice as long
    except OSError:  # A part of the path may be a file now, or not readable any more.
        return None


def _size(path: str) -> int:
    found = _stat(path)
    return 0 if found is None else found.st_size
