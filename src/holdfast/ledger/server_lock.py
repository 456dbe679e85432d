"""One server process per SQLite file.

SQLite's lock is not fair: of four processes that write in batches, one was seen to get nothing for four seconds. So a
server takes this lock for as long as it runs, and a second one is told what to do instead. The command line's short
writes do not take it; they wait their turn at SQLite's own lock. The system drops the lock with the process, however
it ends.
"""

import fcntl
import os
from pathlib import Path
from typing import Self

from holdfast.errors import AlreadyRunning

_HINT = (
    "SQLite serves one server process. Stop the other one, choose another --data directory, or set "
    "HOLDFAST_DATABASE_URL=postgresql://… to run several."
)


class ServerLock:
    def __init__(self, database_file: Path, role: str) -> None:
        # A link and what it points to are one database, and have one lock.
        real = database_file.resolve()
        self._path = real.with_name(f"{real.name}.{role}.lock")
        self._role = role
        self._fd: int | None = None

    def acquire(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            owner = os.read(fd, 32).decode().strip() or "unknown"
            os.close(fd)
            raise AlreadyRunning(
                f"A Holdfast {self._role} (process {owner}) already uses {self._path.parent}. {_HINT}"
            ) from exc
        os.ftruncate(fd, 0)
        os.write(fd, str(os.getpid()).encode())
        self._fd = fd
        return self

    def owner(self) -> str | None:
        """The process that holds the lock, if any. Looked at with a shared lock, let go at once, and never made."""
        try:
            with self._path.open("rb") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return lock.read(32).decode().strip() or "unknown"
        except OSError:
            pass
        return None

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
