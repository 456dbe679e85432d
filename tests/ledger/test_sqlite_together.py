"""Writers on SQLite who wait together share a commit, and nothing else."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.ledger.engine import sqlite, sqlite_writer
from holdfast.ledger.engine.database import Database, Work
from holdfast.ledger.engine.opening import open_database

pytestmark = pytest.mark.parametrize("brief", [True, False], ids=["brief", "on the thread"])


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = open_database(f"sqlite:///{tmp_path / 'holdfast.db'}")
    await database.write(lambda c: c.execute(text("CREATE TABLE notes (number INTEGER PRIMARY KEY)")))
    yield database
    await database.close()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is, who waits together is worked off together."""
    monkeypatch.setattr(sqlite, "BATCH_S", 60.0)


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    seen: list[object] = []

    def commit(connection: Connection) -> None:
        sqlite_writer.commit(connection)
        seen.append(connection)

    monkeypatch.setattr(sqlite, "commit", commit)
    return seen


def note(number: int) -> Work[list[int]]:
    """Write a number down, and say what stands there then."""

    def work(connection: Connection) -> list[int]:
        connection.execute(text("INSERT INTO notes VALUES (:number)"), {"number": number})
        return numbers(connection)

    return work


def numbers(connection: Connection) -> list[int]:
    return list(connection.execute(text("SELECT number FROM notes ORDER BY number")).scalars())


def give_up(connection: Connection) -> None:
    """As SQLite does by itself when the disk is full."""
    connection.exec_driver_sql("ROLLBACK")


async def all_at_once(database: Database, works: list[Work[list[int]]], *, brief: bool) -> list[object]:
    return list(await asyncio.gather(*[database.write(w, brief=brief) for w in works], return_exceptions=True))


async def test_each_sees_what_those_before_did_and_the_commit_is_one(
    database: Database, commits: list[object], brief: bool
) -> None:
    seen = await all_at_once(database, [note(number) for number in range(8)], brief=brief)
    assert seen == [list(range(number + 1)) for number in range(8)]
    assert len(commits) == 1
    assert await database.read(numbers) == list(range(8))


async def test_what_fails_is_taken_back_alone(database: Database, brief: bool) -> None:
    def half(connection: Connection) -> list[int]:
        note(77)(connection)
        raise KeyError("defect")

    def twice(connection: Connection) -> list[int]:
        note(78)(connection)
        # Without SQLAlchemy in between, as the batches are written.
        connection.connection.cursor().execute("INSERT INTO notes VALUES (1)")
        return []

    def nowhere(connection: Connection) -> list[int]:
        note(79)(connection)
        connection.execute(text("SELECT * FROM no_such_table"))
        return []

    seen = await all_at_once(database, [note(1), half, note(2), twice, nowhere, note(3)], brief=brief)
    assert [type(each) for each in seen] == [list, KeyError, list, sqlite3.IntegrityError, Unavailable, list]
    assert await database.read(numbers) == [1, 2, 3]


async def test_if_the_transaction_is_given_up_nobody_has_written_anything(database: Database, brief: bool) -> None:
    def fails(connection: Connection) -> list[int]:
        give_up(connection)
        raise KeyError("disk full")

    def does_not_notice(connection: Connection) -> list[int]:
        give_up(connection)
        return []

    for work in (fails, does_not_notice):
        seen = await all_at_once(database, [note(1), work, note(2)], brief=brief)
        assert [type(each) for each in seen] == [Unavailable] * 3
        assert await database.read(numbers) == []
    await database.write(note(3), brief=brief)
    assert await database.read(numbers) == [3]


async def test_if_the_commit_fails_nobody_is_told_either_way(
    database: Database, brief: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def orphan(connection: Connection) -> list[int]:
        connection.execute(text("INSERT INTO children VALUES (99)"))
        return []

    await database.write(
        lambda c: c.execute(text("CREATE TABLE children (n REFERENCES notes DEFERRABLE INITIALLY DEFERRED)"))
    )
    monkeypatch.setattr(sqlite, "begin", begin_enforcing)
    seen = await all_at_once(database, [note(1), orphan, note(2)], brief=brief)
    assert [type(each) for each in seen] == [OutcomeUnknown] * 3
    assert await database.read(numbers) == []


def begin_enforcing(connection: Connection) -> None:
    sqlite_writer.driver_of(connection).execute("PRAGMA foreign_keys = ON")
    sqlite_writer.begin(connection)


async def test_who_comes_first_does_not_wait_for_everybody_else(
    database: Database, commits: list[object], brief: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(_connection: Connection) -> list[int]:
        time.sleep(0.02)
        return []

    monkeypatch.setattr(sqlite, "BATCH_S", 0.01)
    await all_at_once(database, [slowly] * 4, brief=brief)
    assert len(commits) == 4


async def test_a_write_whose_caller_leaves_before_it_starts_is_dropped(database: Database, brief: bool) -> None:
    tasks = [asyncio.create_task(database.write(note(number), brief=brief)) for number in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert await database.read(numbers) == [0, 2]


async def test_a_write_that_has_started_is_committed_though_its_caller_leaves(database: Database, brief: bool) -> None:
    tasks = [asyncio.create_task(database.write(note(number), brief=brief)) for number in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert await database.read(numbers) == [0, 1, 2]


async def test_who_gives_up_closing_does_not_stop_the_writer(tmp_path: Path, brief: bool) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'other.db'}")
    await database.write(lambda c: c.execute(text("CREATE TABLE notes (number INTEGER PRIMARY KEY)")))
    let_go = threading.Event()

    def waits(connection: Connection) -> list[int]:
        assert let_go.wait(30)
        return note(1)(connection)

    writing = asyncio.create_task(database.write(waits))
    behind = asyncio.create_task(database.write(note(2), brief=brief))
    await asyncio.sleep(0)
    closing = asyncio.create_task(database.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    let_go.set()
    assert list(await asyncio.wait_for(asyncio.gather(writing, behind), 30)) == [[1], [1, 2]]
    await database.close()


async def test_whatever_work_raises_everybody_is_told(database: Database, brief: bool) -> None:
    def careless(_connection: Connection) -> list[int]:
        return [next(iter([]))]

    seen = await asyncio.wait_for(all_at_once(database, [note(1), careless, note(2)], brief=brief), 30)
    assert [type(each) for each in seen] == [list, RuntimeError, list]


async def test_a_long_line_of_work_that_changes_nothing_leaves_turns_to_others(database: Database, brief: bool) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    await asyncio.gather(*[database.write(numbers, brief=brief) for _ in range(1_000)])
    beside.cancel()
    assert turns > 10


async def test_a_write_that_fails_takes_none_of_the_other_kind_with_it(database: Database, brief: bool) -> None:
    class Refused(Exception):
        pass

    def refused(_connection: Connection) -> None:
        raise Refused

    seen = await asyncio.gather(
        database.write(refused, brief=brief),
        database.write(note(1), brief=not brief),
        database.write(note(2), brief=brief),
        return_exceptions=True,
    )
    assert [type(one) for one in seen] == [Refused, list, list]
    assert seen[2] == [1, 2]
