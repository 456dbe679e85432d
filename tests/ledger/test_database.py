"""Transactions: what is told when one fails, and what is left behind when its caller goes."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, select, text
from sqlalchemy.util import await_only

from holdfast.errors import SettingsError, Unavailable
from holdfast.ledger.access.keys import Scope, create_key
from holdfast.ledger.engine import postgres, sqlite, sqlite_writer
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.engine.sqlite import SqliteDatabase
from holdfast.ledger.migrate import migrate
from holdfast.ledger.tables.access import service_keys
from holdfast.settings import load_settings
from holdfast.testing.states import NOW


def put(connection: Connection) -> None:
    create_key(connection, "shop", frozenset(Scope), NOW)


async def rows(database: Database) -> int:
    count = select(func.count()).select_from(service_keys)
    return await database.read(lambda connection: connection.execute(count).scalar_one())


@pytest.mark.parametrize("url", ["mysql://host/name", "sqlite://", "sqlite:///"])
def test_a_url_that_cannot_work_is_refused_with_what_to_do(url: str) -> None:
    with pytest.raises(SettingsError, match=r"HOLDFAST_DATABASE_URL.*sqlite:///"):
        load_settings(database_url=url)


async def test_what_was_written_is_there(database: Database) -> None:
    await database.write(put)
    assert await rows(database) == 1


async def test_a_defect_in_the_work_undoes_it_and_passes_as_it_is(database: Database) -> None:
    def work(connection: Connection) -> None:
        put(connection)
        raise KeyError("defect")

    with pytest.raises(KeyError):
        await database.write(work)
    assert await rows(database) == 0


async def test_a_refusal_by_the_database_undoes_the_work_and_is_unavailable(database: Database) -> None:
    def work(connection: Connection) -> None:
        put(connection)
        connection.execute(text("SELECT * FROM no_such_table"))

    with pytest.raises(Unavailable, match="no_such_table"):
        await database.write(work)
    assert await rows(database) == 0


class Pause:
    """A stop in the middle of a transaction, on either engine: a thread waits one way, a task the other."""

    def __init__(self, database: Database) -> None:
        self.reached = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._resume = threading.Event() if database.dialect_name == "sqlite" else asyncio.Event()

    def here(self) -> None:
        self._loop.call_soon_threadsafe(self.reached.set)
        if isinstance(self._resume, threading.Event):
            assert self._resume.wait(60)
        else:
            await_only(self._resume.wait())

    def resume(self) -> None:
        self._resume.set()


def paused(pause: Pause) -> Callable[[Connection], None]:
    def work(connection: Connection) -> None:
        put(connection)
        pause.here()

    return work


async def test_a_reader_does_not_wait_for_a_writer_and_sees_only_what_is_committed(database: Database) -> None:
    pause = Pause(database)
    writing = asyncio.create_task(database.write(paused(pause), timeout_s=60.0))
    await pause.reached.wait()
    assert await asyncio.wait_for(rows(database), 30) == 0
    pause.resume()
    await writing
    assert await rows(database) == 1


async def test_brief_work_that_changed_nothing_does_not_wait_for_a_thread_to_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'a.db'}")
    assert isinstance(database, SqliteDatabase)
    await migrate(database)
    by: list[threading.Thread] = []

    def commit(connection: Connection) -> None:
        by.append(threading.current_thread())
        sqlite_writer.commit(connection)

    monkeypatch.setattr(sqlite, "commit", commit)
    await database.lock_free_read(lambda c: c.execute(text("SELECT 1")).scalar())
    await database.write(lambda c: c.execute(text("DELETE FROM pools WHERE total < 0")), brief=True)
    assert by == [threading.current_thread()] * 2
    await database.write(put, brief=True)
    assert by[2] != threading.current_thread()
    await database.close()


# --- PostgreSQL only: a transaction there can be cut off.


@pytest.fixture
async def postgres_database(empty_postgres_database_url: str, monkeypatch: pytest.MonkeyPatch) -> Database:
    monkeypatch.setattr(postgres, "POOL_TIMEOUT_S", 0.2)
    return open_database(empty_postgres_database_url, connections=2)


async def test_a_lock_free_read_sees_one_moment_and_changes_nothing(postgres_database: Database) -> None:
    database = postgres_database
    await database.write(service_keys.create)

    def twice(connection: Connection) -> tuple[int, int]:
        count = select(func.count()).select_from(service_keys)
        before = connection.execute(count).scalar_one()
        await_only(database.write(put))
        return before, connection.execute(count).scalar_one()

    assert await database.lock_free_read(twice) == (0, 0)
    with pytest.raises(Unavailable, match="read-only"):
        await database.lock_free_read(put)
    assert await rows(database) == 1
    await database.close()


async def test_a_caller_who_goes_leaves_nothing_behind(postgres_database: Database) -> None:
    database = postgres_database
    await database.write(service_keys.create)
    for _ in range(4):
        pause = Pause(database)
        writing = asyncio.create_task(database.write(paused(pause)))
        await pause.reached.wait()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
    assert await rows(database) == 0
    await database.write(put)
    assert await rows(database) == 1
    await database.close()


async def test_a_transaction_that_takes_too_long_is_cut_off_and_its_connection_is_clean(
    postgres_database: Database,
) -> None:
    database = postgres_database
    for _ in range(4):
        with pytest.raises(Unavailable):
            await database.write(lambda connection: connection.execute(select(func.pg_sleep(60))), timeout_s=0.1)
    assert await asyncio.wait_for(database.read(lambda c: c.execute(text("SELECT 1")).scalar_one()), 30) == 1
    await database.close()


async def test_when_every_connection_is_taken_the_next_caller_is_told_soon(postgres_database: Database) -> None:
    database = postgres_database
    await database.write(service_keys.create)
    pauses = [Pause(database) for _ in range(2)]
    writing = [asyncio.create_task(database.write(paused(pause), timeout_s=60.0)) for pause in pauses]
    await asyncio.gather(*[pause.reached.wait() for pause in pauses])
    with pytest.raises(Unavailable):
        await asyncio.wait_for(rows(database), 30)
    for pause in pauses:
        pause.resume()
    await asyncio.gather(*writing)
    await database.close()


# --- brief work


@pytest.fixture
async def sqlite_file(tmp_path: Path) -> Path:
    file = tmp_path / "holdfast.db"
    database = open_database(f"sqlite:///{file}")
    await database.write(service_keys.create)
    await database.close()
    return file


async def test_brief_work_waits_for_another_writer_without_holding_up_the_loop(sqlite_file: Path) -> None:
    database = open_database(f"sqlite:///{sqlite_file}")
    other = sqlite3.connect(sqlite_file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.create_task(database.write(put, brief=True))
    assert await asyncio.wait_for(rows(database), 30) == 0
    assert not writing.done()
    other.execute("COMMIT")
    await asyncio.wait_for(writing, 30)
    assert await rows(database) == 1
    await database.close()


@pytest.mark.parametrize("brief", [True, False])
async def test_a_caller_who_goes_does_not_disturb_the_writes_behind(sqlite_file: Path, brief: bool) -> None:
    database = open_database(f"sqlite:///{sqlite_file}")
    for turns in range(6):
        writing = asyncio.create_task(database.write(put, brief=brief))
        for _ in range(turns):
            await asyncio.sleep(0)
        # A lone write may be over before it could be cancelled.
        if writing.cancel():
            with pytest.raises(asyncio.CancelledError):
                await writing
    await database.write(put, brief=brief)
    assert 1 <= await rows(database) <= 7
    await database.close()


# --- durability


async def test_sqlite_keeps_what_it_says_it_keeps(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'holdfast.db'}")

    def pragmas(connection: Connection) -> tuple[object, ...]:
        return tuple(
            connection.execute(text(f"PRAGMA {name}")).scalar_one() for name in ("journal_mode", "synchronous")
        )

    full = 2
    assert await database.write(pragmas) == await database.read(pragmas) == ("wal", full)
    await database.close()
