"""What tests share: the engines, all of them real, and a guard that none is left out."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from sqlalchemy import Connection, delete, make_url

from holdfast.bench.engines import postgres
from holdfast.ledger.database import Database, open_database
from holdfast.ledger.migrate import migrate
from holdfast.ledger.schema import metadata
from redis_world import RedisWorld
from valkeys import ValkeyProcess, running_valkey

pytest_plugins = ("second_try",)

# Hundreds of servers are started here. Where nothing compiled is kept, each compiles all of Holdfast anew, which takes
# a quarter of the time until it is ready.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

Swept = Callable[[str], Awaitable[Database]]

ENGINES = ("sqlite", "postgresql")
PROVIDERS = ("sandbox", "stripe")
EXPECTED = {*ENGINES, "redis", *PROVIDERS}
_exercised: set[str] = set()


def exercised(name: str) -> None:
    """Called where a conformance suite begins on an engine or a payment provider."""
    _exercised.add(name)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with postgres() as url:
        yield url


def new_postgres_database(server_url: str) -> str:
    """An empty database on the test server; gives its URL."""
    name = f"test_{uuid4().hex}"

    async def create() -> None:
        connection = await asyncpg.connect(server_url)
        try:
            await connection.execute(f'CREATE DATABASE "{name}"')
        finally:
            await connection.close()

    asyncio.run(create())
    return make_url(server_url).set(database=name).render_as_string(hide_password=False)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The name of each engine in turn."""
    name: str = request.param
    _exercised.add(name)
    return name


@pytest.fixture
def database_url(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, on each engine in turn."""
    if engine == "sqlite":
        return f"sqlite:///{tmp_path / 'holdfast.db'}"
    return new_postgres_database(request.getfixturevalue("postgres_url"))


@pytest.fixture
def postgres_database_url(postgres_url: str) -> str:
    """The URL of an empty database on PostgreSQL, for what only it can do."""
    return new_postgres_database(postgres_url)


@pytest.fixture
async def migrated_postgres(postgres_database_url: str) -> AsyncIterator[Database]:
    """A database of its own, for tests that need its statistics to themselves."""
    database = open_database(postgres_database_url)
    await migrate(database)
    yield database
    await database.close()


@pytest.fixture(scope="session")
def _swept_postgres_url(postgres_url: str) -> str:
    """One database that many tests use in turn, because making one takes longer than most of them."""
    return new_postgres_database(postgres_url)


@pytest.fixture(scope="session")
def _swept_sqlite_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('swept') / 'swept.db'}"


@pytest.fixture(scope="session")
async def swept() -> AsyncIterator[Swept]:
    """A database with nothing in it. It stays open for the next test: a new one compiles every statement anew, which
    takes longer than most tests."""
    opened: dict[str, Database] = {}

    async def sweep(url: str) -> Database:
        if url not in opened:
            opened[url] = open_database(url)
            await migrate(opened[url])
        await opened[url].write(_sweep)
        return opened[url]

    yield sweep
    for database in opened.values():
        await database.close()


@pytest.fixture
def _swept_url(engine: str, request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue("_swept_sqlite_url" if engine == "sqlite" else "_swept_postgres_url")
    return url


@pytest.fixture
async def database(_swept_url: str, swept: Swept) -> Database:
    """A migrated database with nothing in it, on each engine in turn."""
    return await swept(_swept_url)


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyProcess]:
    """A Valkey that syncs every write, for tests that leave it running; each finds it empty."""
    with running_valkey(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture(scope="session")
def steady_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyProcess]:
    """For tests that run the function library as it is; others load one whose clock they set."""
    with running_valkey(tmp_path_factory.mktemp("steady-valkey")) as server:
        yield server


@pytest.fixture
async def redis_world(
    valkey_server: ValkeyProcess, _swept_postgres_url: str, swept: Swept
) -> AsyncIterator[RedisWorld]:
    """The gate in Valkey with its ledger in PostgreSQL, both with nothing in them, by a clock that the test sets."""
    _exercised.add("redis")
    valkey_server.command("FLUSHALL")
    world = RedisWorld(await swept(_swept_postgres_url), valkey_server.url)
    yield world
    await world.close()


def _sweep(connection: Connection) -> None:
    for table in metadata.sorted_tables:
        connection.execute(delete(table))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """What chance depends on in this test; shown when it fails, with the command that replays it."""
    given = int(os.environ.get("HOLDFAST_TEST_SEED") or random.randrange(1_000_000))
    print(f"replay with: HOLDFAST_TEST_SEED={given} pytest '{request.node.nodeid}'")
    return given


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run of the conformance suite that skipped an engine or a provider must not look like one that passed on it."""
    if hasattr(session.config, "workeroutput"):  # One of several processes: the first one judges for all.
        session.config.workeroutput["exercised"] = sorted(_exercised)
        return
    whole_run = not session.config.args or session.config.args == ["tests"]
    missing = EXPECTED - _exercised
    if whole_run and missing and not session.config.getoption("-k"):
        print(f"\nnever exercised: {', '.join(sorted(missing))}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _exercised.update(getattr(node, "workeroutput", {}).get("exercised", ()))
