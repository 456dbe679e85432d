"""SQLite: a small commit that nobody waits behind stays on the event loop while the disk is quick."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from databases import new_sqlite_database
from holdfast.domain.stock.command import Provision
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine import sqlite
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.engine.sqlite import LONE_ROWS, QUICK_COMMIT_S, SqliteDatabase
from holdfast.testing.states import SKU, reserve

SLOW_S, QUICK_S = QUICK_COMMIT_S * 4, QUICK_COMMIT_S / 4


class Disk:
    """Tells how long commits took, and where each was done."""

    def __init__(self) -> None:
        self.takes_s = QUICK_S
        self.on_loop: list[bool] = []
        self._loop_thread = threading.get_ident()

    def commit(self, *given: Any) -> float:
        _commit_to(*given)
        self.on_loop.append(threading.get_ident() == self._loop_thread)
        return self.takes_s


_commit_to = sqlite._commit_to


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    database = open_database(new_sqlite_database(tmp_path / "holdfast.db"))
    assert isinstance(database, SqliteDatabase)
    yield database
    await database.close()


@pytest.fixture
def disk(database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(sqlite, "_commit_to", disk.commit)
    monkeypatch.setattr(database, "_commit_s", QUICK_S)
    return disk


async def write(database: SqliteDatabase, rows: int = 1) -> None:
    given = ", ".join(f"('p{number}', 0, '{{}}', '')" for number in range(rows))
    statement = text(f"INSERT OR REPLACE INTO heartbeats (process, at, roles, revision) VALUES {given}")
    await database.write(lambda c: c.execute(statement), brief=True)


async def test_the_first_commit_shows_how_quick_the_disk_is(database: SqliteDatabase) -> None:
    assert database._commit_s > QUICK_COMMIT_S
    await write(database)
    assert database._commit_s < 60


async def test_a_lone_commit_stays_on_the_event_loop(database: SqliteDatabase, disk: Disk) -> None:
    await write(database)
    assert disk.on_loop == [True]


async def test_a_larger_commit_goes_to_the_thread(database: SqliteDatabase, disk: Disk) -> None:
    await write(database, LONE_ROWS + 1)
    assert disk.on_loop == [False]


async def test_a_commit_that_others_wait_behind_goes_to_the_thread(database: SqliteDatabase, disk: Disk) -> None:
    await asyncio.gather(write(database), database.write(lambda c: c.execute(text("SELECT 1")).all()))
    assert disk.on_loop[0] is False


async def test_a_slow_disk_gets_the_thread_until_it_has_been_quick_for_a_while(
    database: SqliteDatabase, disk: Disk
) -> None:
    disk.takes_s = SLOW_S
    await write(database)
    disk.takes_s = QUICK_S
    for _ in range(40):
        await write(database)
    assert disk.on_loop[:3] == [True, False, False]
    assert disk.on_loop[-1]


async def test_a_reservation_is_lone(database: SqliteDatabase, disk: Disk) -> None:

    gate = SqlGate(database)
    await gate.apply(SKU, [Provision(5)])
    disk.on_loop.clear()
    await gate.apply(SKU, [reserve(key="key")])
    await gate.apply(SKU, [reserve("b", "b", key="b"), reserve("c", "c", key="c")])
    assert disk.on_loop == [True, False]
