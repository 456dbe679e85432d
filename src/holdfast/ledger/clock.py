"""The clock of the embedded engine.

SQLite has no clock of its own: it would ask the host's, and a host's clock can be set. This one reads the host's clock
once and then counts elapsed time, so that setting the clock an hour forward neither expires every hold at once nor lets
one live an hour longer. PostgreSQL and Redis have a clock that all API processes share, and theirs is asked instead.

Once means once for all processes on a database until the machine is started anew: a command that read the host's clock
for itself, after it was set, would decide in another time than the server beside it. So whoever comes first writes down
beside the database how far the host's clock is ahead of the elapsed time, and all others read it. A new boot counts
from nothing, and begins with the host's clock again, but never before the last moment that anything was decided at.

What happens when it fails. Where the system does not say which boot this is, or nothing can be written beside the
database, each process reads the host's clock at its own start. A clock that was wrong when it was read stays wrong
until the next boot, the same for everyone; `holdfast doctor` says so.
"""

import fcntl
import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol

from sqlalchemy import BigInteger, Connection, cast, extract, func, literal_column

POSTGRES_NOW_MS = cast(extract("epoch", func.clock_timestamp()) * literal_column("1000"), BigInteger)


class Clock(Protocol):
    """The engine's: a `Database`."""

    def now_ms(self, connection: Connection) -> int: ...

    def known_now_ms(self) -> int | None: ...


# Unlike CLOCK_MONOTONIC it goes on while the machine sleeps, as deadlines do.
_ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SteadyClock:
    def __init__(self, ahead_ns: int) -> None:
        self._ahead_ns = ahead_ns

    def now_ms(self) -> int:
        return (self._ahead_ns + time.clock_gettime_ns(_ELAPSED)) // 1_000_000

    def drift_ms(self) -> int:
        """How far the host's clock has been set since it was read."""
        return time.time_ns() // 1_000_000 - self.now_ms()


def own_clock() -> SteadyClock:
    return SteadyClock(_host_ahead_ns())


def shared_clock(database_file: Path) -> SteadyClock:
    """The one clock of all processes on this database."""
    try:
        return SteadyClock(_agree(database_file.resolve(), _BOOT_ID.read_text().strip()))
    except OSError:
        return own_clock()


def clock_file(database_file: Path) -> Path:
    return database_file.with_name(f"{database_file.name}.clock")


def _agree(database_file: Path, boot_id: str) -> int:
    fd = os.open(clock_file(database_file), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)  # Of several that come first together, one writes.
        written_boot_id, _, written = os.read(fd, 200).decode(errors="replace").strip().partition(" ")
        with suppress(ValueError):
            if written_boot_id == boot_id:
                return int(written)
        ahead_ns = max(_host_ahead_ns(), _latest_decision_ns(database_file) - time.clock_gettime_ns(_ELAPSED))
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{boot_id} {ahead_ns}\n".encode(), 0)
        return ahead_ns
    finally:
        os.close(fd)


def _host_ahead_ns() -> int:
    return time.time_ns() - time.clock_gettime_ns(_ELAPSED)


def _latest_decision_ns(database_file: Path) -> int:
    """Asked of the file itself: there is no engine yet, and there may be no table or no file either."""
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{database_file.as_uri()}?mode=ro", uri=True)) as connection,
    ):
        [latest] = connection.execute("SELECT max(decided_at) FROM pools").fetchone()
        return int(latest or 0) * 1_000_000
    return 0
