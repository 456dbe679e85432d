"""Notices that a SQLite file is no longer the one that was opened.

A file that is moved, replaced or deleted under a running server still takes its writes, but nobody will find them there
after a restart. So before every commit, and once more before it is acknowledged, the path must still lead to the file
that was opened, and so must that of its write-ahead log: two calls of stat, a few microseconds beside a sync.
"""

import os
from pathlib import Path

from holdfast.errors import Cause, EngineError, OutcomeUnknown, Unavailable

Identity = tuple[int, int]


class DatabaseFile:
    def __init__(self, path: Path) -> None:
        self._database = os.fspath(path.absolute())
        # SQLite follows a link before it names the log.
        self._log = f"{path.resolve()}-wal"
        self._opened: dict[str, Identity] = {}

    def check_opened(self) -> None:
        """After a connection was opened, which must be to the same file as the first."""
        self._check(Unavailable, [self._database])

    def check_before_commit(self) -> None:
        """The log exists by then: the transaction has begun."""
        self._check(Unavailable, [self._database, self._log])

    def check_committed(self) -> None:
        """If the file is put back, the commit is there after all."""
        self._check(OutcomeUnknown, [self._database, self._log])

    def log_bytes(self) -> int:
        try:
            return os.stat(self._log).st_size  # noqa: PTH116 - as below
        except OSError:
            return 0  # The next commit says so.

    def _check(self, error: type[EngineError], paths: list[str]) -> None:
        for path in paths:
            found = _identity(path)
            if found is None or self._opened.setdefault(path, found) != found:
                raise error(f"{path} was moved, replaced or deleted while it was open", Cause.FILE_REPLACED)


def _identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - a Path takes twice as long
    except OSError:  # A part of the path may be a file now, or not readable any more.
        return None
    return found.st_dev, found.st_ino
