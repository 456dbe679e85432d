"""What a failed write means: the database refused and nothing happened, or nobody can tell."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.util import await_only

from databases import new_sqlite_database
from holdfast.errors import Cause, OutcomeUnknown, Unavailable
from holdfast.ledger.access.keys import Scope, create_key
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.engine.postgres import PostgresDatabase
from holdfast.ledger.tables.access import service_keys
from holdfast.testing.states import NOW


def put(connection: Connection) -> None:
    create_key(connection, "shop", frozenset(Scope), NOW)


def raising(sqlstate: str) -> str:
    return f"DO $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '{sqlstate}'; END $$"


def execute(statement: str) -> Callable[[Connection], object]:
    return lambda connection: connection.exec_driver_sql(statement)


@pytest.fixture
async def postgres(empty_postgres_database_url: str) -> AsyncIterator[PostgresDatabase]:
    database = open_database(empty_postgres_database_url, connections=1)
    assert isinstance(database, PostgresDatabase)
    await database.write(service_keys.create)
    yield database
    await database.close()


async def fail_at_commit(database: Database, action: str) -> None:
    """Make the next COMMIT do this, within the server."""

    body = f"BEGIN {action}; PERFORM pg_sleep(30); RETURN NULL; END"
    await database.write(execute(f"CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS $f$ {body} $f$"))
    trigger = "AFTER INSERT ON service_keys DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION act()"
    await database.write(execute(f"CREATE CONSTRAINT TRIGGER act {trigger}"))


CAUSES = {
    "25006": Cause.STORE_READ_ONLY,
    "53100": Cause.DISK_FULL,
    "55P03": Cause.LOCK_TIMEOUT,
    "40001": None,
    "22021": None,
    "XX000": None,
}


@pytest.mark.parametrize("autocommit", [False, True])
@pytest.mark.parametrize(("sqlstate", "cause"), CAUSES.items())
async def test_an_error_that_the_server_reports_means_that_nothing_happened(
    postgres: PostgresDatabase, sqlstate: str, cause: Cause | None, autocommit: bool
) -> None:
    with pytest.raises(Unavailable) as caught:
        await postgres.write(execute(raising(sqlstate)), autocommit=autocommit)
    assert caught.value.cause is cause


async def test_a_commit_that_the_server_refuses_did_not_happen(postgres: PostgresDatabase) -> None:
    await fail_at_commit(postgres, "RAISE EXCEPTION 'full' USING ERRCODE = '53100'")
    with pytest.raises(Unavailable) as caught:
        await postgres.write(put)
    assert caught.value.cause is Cause.DISK_FULL


@pytest.mark.parametrize("autocommit", [False, True])
async def test_a_session_that_is_killed_while_it_commits_leaves_the_outcome_unknown(
    postgres: PostgresDatabase, autocommit: bool
) -> None:
    await fail_at_commit(postgres, "PERFORM pg_terminate_backend(pg_backend_pid())")
    with pytest.raises(OutcomeUnknown):
        await postgres.write(put, autocommit=autocommit)


async def test_a_session_that_became_read_only_is_dropped_at_once(postgres: PostgresDatabase) -> None:
    """As a failover behind a proxy leaves it: connected to the server that was the primary."""
    await postgres.write(execute("SET default_transaction_read_only = on"))
    with pytest.raises(Unavailable) as caught:
        await postgres.write(put, autocommit=True)
    assert caught.value.cause is Cause.STORE_READ_ONLY
    await postgres.write(put)


async def test_every_idle_session_is_dropped_with_the_first_that_is_read_only(empty_postgres_database_url: str) -> None:
    database = open_database(empty_postgres_database_url, connections=3)
    await database.write(service_keys.create)
    together = asyncio.Barrier(3)

    def make_read_only(connection: Connection) -> None:
        connection.exec_driver_sql("SET default_transaction_read_only = on")
        await_only(together.wait())

    await asyncio.gather(*[database.write(make_read_only) for _ in range(3)])
    with pytest.raises(Unavailable):
        await database.write(put)
    await asyncio.gather(*[database.write(put) for _ in range(3)])
    await database.close()


@pytest.mark.parametrize("sqlstate", ["22021", "25006", "42P01", "53100"])
async def test_refusals_do_not_open_the_breaker(postgres: PostgresDatabase, sqlstate: str) -> None:
    for _ in range(10):
        with pytest.raises(Unavailable):
            await postgres.read(execute(raising(sqlstate)))
    assert postgres.breaker.is_closed


async def test_text_that_postgresql_cannot_store_does_not_open_the_breaker(postgres: PostgresDatabase) -> None:
    for value in ("\0", "\ud800") * 5:
        with pytest.raises(Unavailable):
            await postgres.read(partial(Connection.execute, statement=text("SELECT :v"), parameters={"v": value}))
    assert postgres.breaker.is_closed


# --- SQLite


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[Database]:
    database = open_database(f"sqlite:///{tmp_path / 'a.db'}")
    await database.write(service_keys.create)
    yield database
    await database.close()


@pytest.mark.parametrize("brief", [False, True])
async def test_a_full_sqlite_file_is_a_refusal(sqlite: Database, brief: bool) -> None:
    await sqlite.write(execute("PRAGMA max_page_count = 1"))
    with pytest.raises(Unavailable) as caught:
        await sqlite.write(execute("CREATE TABLE more AS SELECT randomblob(100000)"), brief=brief)
    assert caught.value.cause is Cause.DISK_FULL


async def test_a_read_only_sqlite_file_is_a_refusal(sqlite: Database) -> None:
    await sqlite.write(execute("PRAGMA query_only = on"))
    with pytest.raises(Unavailable) as caught:
        await sqlite.write(put)
    assert caught.value.cause is Cause.STORE_READ_ONLY


@pytest.mark.parametrize("is_a_file_now", [False, True])
async def test_a_database_whose_directory_was_moved_away_refuses_writes(tmp_path: Path, is_a_file_now: bool) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    database = open_database(new_sqlite_database(directory / "holdfast.db"))
    await database.write(put)
    directory.rename(tmp_path / "moved")
    if is_a_file_now:
        directory.touch()
    with pytest.raises(Unavailable) as caught:
        await database.write(put)
    assert caught.value.cause is Cause.FILE_REPLACED
    await database.close()
