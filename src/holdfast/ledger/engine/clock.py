"""The clock of the embedded engine.

SQLite has no clock of its own: it would use the host's, which can be changed. This clock reads the host's once and then
counts elapsed time, so setting the host's clock forward by an hour neither expires every hold nor extends one by an
hour. PostgreSQL has a clock that all API processes share; see `runtime/engine_clock.py`.

The host's clock is read once for all processes on a database, until the machine reboots: otherwise a command that read
it after a change would decide by a different time than the server. So the first process stores, next to the database,
how far the host's clock is ahead of the elapsed time, and all others read that. After a reboot the clock starts again
from the host's clock, but never before the last decision.

What happens when it fails. If the system does not identify its boots, or nothing can be written next to the database,
each process reads the host's clock at its own start. If the clock was wrong when it was read, it stays wrong until the
next reboot, by the same amount for all processes; `holdfast doctor` reports it.
"""

import fcntl
import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol

from sqlalchemy import BigInteger, Connection, cast, extract, func, literal_column

from holdfast.runtime.engine_clock import ELAPSED

POSTGRES_NOW_MS = cast(extract("epoch", func.clock_timestamp()) * literal_column("1000"), BigInteger)


class Clock(Protocol):
    """The engine's: a `Database`."""

    def now_ms(self, connection: Connection) -> int: ...

    def known_now_ms(self) -> int | None: ...


_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SteadyClock:
    def __init__(self, ahead_ns: int) -> None:
        self._ahead_ns = ahead_ns

    def now_ms(self) -> int:
        return (self._ahead_ns + time.clock_gettime_ns(ELAPSED)) // 1_000_000

    def drift_ms(self) -> int:
        """By how much the host's clock was changed since it was read."""
        return time.time_ns() // 1_000_000 - self.now_ms()


def own_clock() -> SteadyClock:
    return SteadyClock(_host_ahead_ns())


def shared_clock(database_file: Path) -> SteadyClock:
    """The clock that all processes on this database share."""
    try:
        return SteadyClock(_agree(database_file.resolve(), _BOOT_ID.read_text().strip()))
    except OSError:
        return own_clock()


def clock_file(database_file: Path) -> Path:
    return database_file.with_name(f"{database_file.name}.clock")


def _agree(database_file: Path, boot_id: str) -> int:
    fd = os.open(clock_file(database_file), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)  # If several start at the same time, one of them writes.
        written_boot_id, _, written = os.read(fd, 200).decode(errors="replace").strip().partition(" ")
        with suppress(ValueError):
            if written_boot_id == boot_id:
                return int(written)
        ahead_ns = max(_host_ahead_ns(), _latest_decision_ns(database_file) - time.clock_gettime_ns(ELAPSED))
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{boot_id} {ahead_ns}\n".encode(), 0)
        return ahead_ns
    finally:
        os.close(fd)


def _host_ahead_ns() -> int:
    return time.time_ns() - time.clock_gettime_ns(ELAPSED)


def _latest_decision_ns(database_file: Path) -> int:
    """Read directly from the file: there is no engine yet, and the table or the file may not exist."""
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{database_file.as_uri()}?mode=ro", uri=True)) as connection,
    ):
        [latest] = connection.execute("SELECT max(decided_at) FROM pools").fetchone()
        return int(latest or 0) * 1_000_000
    return 0
