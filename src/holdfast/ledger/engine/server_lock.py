"""One server process per SQLite file.

SQLite's lock is not fair: of four processes that wrote in batches, one got nothing for four seconds. So a server holds
this lock as long as it runs, and a second server is refused with advice. The short writes of the command line do not
take it; they wait for SQLite's own lock. The system releases the lock when the process ends, however it ends.

It consists of two locks. One is on a file beside the database and still holds if the database is moved. The other,
where the system offers it, is on a byte of the database itself, far beyond its end, and still holds if the lock file is
deleted. It belongs to the open file and not to the process, so it does not interfere with SQLite's own locks on other
bytes of that file.
"""

import fcntl
import os
import struct
from multiprocessing import parent_process
from pathlib import Path
from typing import Self

from holdfast.errors import AlreadyRunning
from holdfast.runtime.private_files import make_private_directory

_HINT = (
    "SQLite serves one server process. Stop the other one, choose another --data directory, or set "
    "HOLDFAST_DATABASE_URL=postgresql://… to run several."
)

# SQLite locks bytes near 2^30; a database cannot grow to this size.
_LOCKED_BYTES = {"server": 2**60, "worker": 2**60 + 1}
_OFD_SETLK = getattr(fcntl, "F_OFD_SETLK", None)


class ServerLock:
    def __init__(self, database_file: Path, role: str) -> None:
        # A symlink and its target are the same database and share a lock.
        real = database_file.resolve()
        self._path = real.with_name(f"{real.name}.{role}.lock")
        self._database = real
        self._role = role
        self._fds: list[int] = []

    def acquire(self) -> Self:
        make_private_directory(self._path.parent)
        try:
            lock = self._open(self._path)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._lock_database()
        except BlockingIOError as exc:
            owner = self.owner() or "unknown"
            self.release()
            raise AlreadyRunning(
                f"A Holdfast {self._role} (process {owner}) already uses {self._path.parent}. {_HINT}"
            ) from exc
        os.ftruncate(lock, 0)
        os.write(lock, str(_process_to_stop()).encode())
        return self

    def _lock_database(self) -> None:
        """Keeps the file open until the process has closed the database: closing it would release SQLite's locks."""
        if _OFD_SETLK is not None:
            byte = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, _LOCKED_BYTES[self._role], 1, 0)
            fcntl.fcntl(self._open(self._database), _OFD_SETLK, byte)

    def _open(self, path: Path) -> int:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._fds.append(fd)
        return fd

    def owner(self) -> str | None:
        """The process that holds the lock, if any. Checked with a shared lock that is released at once."""
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
        while self._fds:
            os.close(self._fds.pop())


def _process_to_stop() -> int | None:
    """Of several processes that form one server, the supervisor."""
    supervisor = parent_process()
    return os.getpid() if supervisor is None else supervisor.pid
