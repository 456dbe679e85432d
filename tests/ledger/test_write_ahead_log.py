"""SQLite's write-ahead log: it grows beside a long reader, is named if it grows too far, and is cut back afterwards."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from itertools import count
from pathlib import Path
from threading import Event

import pytest
from sqlalchemy import Connection, make_url, text

from databases import new_sqlite_database
from holdfast.errors import Unavailable
from holdfast.ledger.engine import sqlite, sqlite_writer
from holdfast.ledger.engine.sqlite import READERS, SqliteDatabase
from holdfast.verify.snapshot import look

MEGABYTE = 1024**2


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "holdfast.db"
    new_sqlite_database(file)
    return file


@pytest.fixture
async def database(file: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteDatabase]:
    monkeypatch.setattr(sqlite, "LOG_KEPT_BYTES", MEGABYTE)
    monkeypatch.setattr(sqlite, "LOG_MAX_BYTES", 4 * MEGABYTE)
    database = SqliteDatabase(make_url(f"sqlite:///{file}"))
    await database.write(lambda c: c.execute(text("CREATE TABLE ballast (x BLOB)")))
    try:
        yield database
    finally:
        await database.close()


def log_of(file: Path) -> Path:
    return file.with_name(f"{file.name}-wal")


async def grow(database: SqliteDatabase, megabytes: int) -> None:
    for _ in range(megabytes):
        await database.write(lambda c: c.execute(text(f"INSERT INTO ballast VALUES (randomblob({MEGABYTE}))")))


async def test_the_log_is_cut_back_once_a_long_reader_has_left(database: SqliteDatabase, file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM ballast").fetchone()
        await grow(database, 20)
        assert log_of(file).stat().st_size > 20 * MEGABYTE
        assert database.trouble() == "log_too_large"
    for _ in range(3):
        await grow(database, 1)
    assert log_of(file).stat().st_size <= 4 * MEGABYTE
    assert database.trouble() is None


class OverlappingReads:
    """Each ends once the next has begun, so that at every moment somebody reads."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._begun = [Event() for _ in range(100_000)]
        self._numbers = count()
        self._is_over = False

    async def __aenter__(self) -> None:
        self._turns = [asyncio.create_task(self._take_turns()) for _ in range(2)]
        await asyncio.to_thread(self._begun[0].wait)

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True
        for begun in self._begun:
            begun.set()
        await asyncio.gather(*self._turns)

    async def _take_turns(self) -> None:
        while not self._is_over:
            number = next(self._numbers)
            await self._database.read(lambda c, number=number: self._read(c, number))  # type: ignore[misc]

    def _read(self, connection: Connection, number: int) -> None:
        connection.execute(text("SELECT count(*) FROM ballast")).one()
        self._begun[number].set()
        self._begun[number + 1].wait()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the next read begins late, and the one before it ends as late."""
    monkeypatch.setattr(sqlite_writer, "FIRST_WAIT_S", 5.0)
    monkeypatch.setattr(sqlite_writer, "PAUSES", 0)


@pytest.mark.usefixtures("patient")
async def test_reads_that_overlap_do_not_keep_the_log_from_being_cut_back(database: SqliteDatabase, file: Path) -> None:
    async with OverlappingReads(database):
        await grow(database, 6)
    assert log_of(file).stat().st_size <= 3 * MEGABYTE


async def test_a_read_of_our_own_ends_before_the_log_grows_for_long(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = text("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n")
    with monkeypatch.context() as brief:
        brief.setattr(sqlite, "READ_S", 0.05)
        with pytest.raises(Unavailable, match="interrupted"):
            await database.read(lambda c: c.execute(endless).all())
    for _ in range(READERS):
        assert await database.read(lambda c: c.execute(text("SELECT 1")).scalar_one()) == 1


async def test_verifying_a_live_ledger_does_not_hold_its_log_up(database: SqliteDatabase, file: Path) -> None:
    await grow(database, 1)

    def checkpoint(_connection: Connection) -> int:
        with closing(sqlite3.connect(file, timeout=0)) as writer:
            writer.execute("INSERT INTO ballast VALUES (1)")
            writer.commit()
            busy, _, _ = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return int(busy)

    assert await look(f"sqlite:///{file}", checkpoint) == 0


@pytest.mark.parametrize("is_in_log", [True, False])
async def test_pages_that_a_smaller_file_lacks_must_all_be_in_the_log(
    database: SqliteDatabase, file: Path, is_in_log: bool
) -> None:
    """As if another program had compacted the file within one of our commits; or as if somebody had cut it."""
    await grow(database, 3)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if is_in_log:
            other.execute("DELETE FROM ballast")
            other.execute("VACUUM")
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            other.execute(f"INSERT INTO ballast VALUES (randomblob({MEGABYTE}))")
    if not is_in_log:
        os.truncate(file, MEGABYTE)
    if is_in_log:
        await grow(database, 1)
    else:
        with pytest.raises(Unavailable, match="cut short"):
            await grow(database, 1)
