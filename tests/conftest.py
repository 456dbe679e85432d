"""What tests share: the engines, all of them real, and a guard that none is left out."""

import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from databases import (
    empty_postgres_database,
    new_postgres_database,
    new_sqlite_database,
    postgres_server,
    sqlite_url,
    sweep,
)
from holdfast.lab.load.kafka_broker import Broker, kafka_broker
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from profiles import seed_of
from redis_setup import RedisSetup
from valkeys import ValkeyProcess, running_valkey

pytest_plugins = ("daily_run", "fault_seeds")

# Hundreds of servers are started here. Where nothing compiled is kept, each compiles all of Holdfast anew, which takes
# a quarter of the time until it is ready.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# A machine that runs tests has no CPU left, and optional reads would be off.
os.environ["HOLDFAST_SHED_HOST_PERCENT"] = "0"

# By default a logged traceback is drawn with every local variable in it, which takes up to a second.
structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)

Swept = Callable[[str], Awaitable[Database]]

ENGINES = ("sqlite", "postgresql")
PROVIDERS = ("sandbox", "stripe")
EXPECTED = {*ENGINES, "redis", *PROVIDERS}
_exercised: set[str] = set()


def exercised(name: str) -> None:
    """Called where a conformance suite begins on an engine or a payment provider."""
    _exercised.add(name)


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """Commands that run in the process of a test set up a log of their own. No logger may keep it for later tests."""
    before, configure = structlog.get_config(), structlog.configure
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structlog, "configure", lambda **given: configure(**given | {"cache_logger_on_first_use": False}))
        yield
    configure(**before)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A Kafka broker. Without Java or Maven this fails: nothing is skipped."""
    with kafka_broker() as broker:
        yield broker


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The name of each engine in turn."""
    name: str = request.param
    _exercised.add(name)
    return name


@pytest.fixture
def database_url(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a migrated database with nothing in it, on each engine in turn."""
    if engine == "sqlite":
        return new_sqlite_database(tmp_path / "holdfast.db")
    return new_postgres_database(request.getfixturevalue("postgres_url"))


@pytest.fixture
def empty_database_url(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without tables, on each engine in turn."""
    if engine == "sqlite":
        return sqlite_url(tmp_path / "empty.db")
    return empty_postgres_database(request.getfixturevalue("postgres_url"))


@pytest.fixture
def postgres_database_url(postgres_url: str) -> str:
    """The URL of a migrated database on PostgreSQL, for what only it can do."""
    return new_postgres_database(postgres_url)


@pytest.fixture
def empty_postgres_database_url(postgres_url: str) -> str:
    return empty_postgres_database(postgres_url)


@pytest.fixture
async def migrated_postgres(postgres_database_url: str) -> AsyncIterator[Database]:
    """A database of its own, for tests that need its statistics to themselves."""
    database = open_database(postgres_database_url)
    yield database
    await database.close()


@pytest.fixture(scope="session")
def _swept_postgres_url(postgres_url: str) -> str:
    """One database that many tests use in turn, because making one takes longer than most of them."""
    return new_postgres_database(postgres_url)


@pytest.fixture(scope="session")
def _swept_sqlite_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return new_sqlite_database(tmp_path_factory.mktemp("swept") / "swept.db")


@pytest.fixture(scope="session")
async def swept() -> AsyncIterator[Swept]:
    """A database with nothing in it. It stays open for the next test: a new one compiles every statement anew, which
    takes longer than most tests."""
    opened: dict[str, Database] = {}

    async def emptied(url: str) -> Database:
        if url not in opened:
            opened[url] = open_database(url)
        await opened[url].write(sweep)
        return opened[url]

    yield emptied
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


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def site(request: pytest.FixtureRequest) -> tuple[str, ValkeyProcess | None]:
    """The ledger's address, and the gate, if that is another."""
    if request.param == "sqlite":
        return request.getfixturevalue("_swept_sqlite_url"), None
    url = request.getfixturevalue("_swept_postgres_url")
    return url, request.getfixturevalue("valkey_server") if request.param == "redis" else None


@pytest.fixture(scope="session")
def steady_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyProcess]:
    """For tests that run the function library as it is; others load one whose clock they set."""
    with running_valkey(tmp_path_factory.mktemp("steady-valkey")) as server:
        yield server


@pytest.fixture
async def redis_setup(
    valkey_server: ValkeyProcess, _swept_postgres_url: str, swept: Swept
) -> AsyncIterator[RedisSetup]:
    """The gate in Valkey with its ledger in PostgreSQL, both with nothing in them, by a clock that the test sets."""
    _exercised.add("redis")
    valkey_server.command("FLUSHALL")
    world = RedisSetup(await swept(_swept_postgres_url), valkey_server.url)
    yield world
    await world.close()


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """What chance depends on in this test; shown when it fails, with the command that replays it."""
    given = int(os.environ.get("HOLDFAST_TEST_SEED") or seed_of(request.node.nodeid))
    seeds = request.config.getoption("--seeds")
    print(f"replay with: HOLDFAST_TEST_SEED={given} pytest --seeds {seeds} '{request.node.nodeid}'")
    return given


def pytest_collection_finish() -> None:
    """Thousands of collected tests live until the end. Without this, each full garbage collection looks at all of them,
    which took a third of a second every few tests."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run of the conformance suite that skipped an engine or a provider must not look like one that passed on it."""
    if hasattr(session.config, "workeroutput"):  # One of several processes: the first one judges for all.
        session.config.workeroutput["exercised"] = sorted(_exercised)
        return
    missing = EXPECTED - _exercised
    if is_daily_run(session.config) and missing:
        print(f"\nnever exercised: {', '.join(sorted(missing))}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def is_daily_run(config: pytest.Config) -> bool:
    """The whole daily part of the suite, not a file or a choice of tests."""
    is_whole = not config.args or config.args == ["tests"]
    is_chosen = config.getoption("-k") or config.getoption("--faults") or config.getoption("-m") not in ("", "not slow")
    return is_whole and not is_chosen and not config.getoption("collectonly")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _exercised.update(getattr(node, "workeroutput", {}).get("exercised", ()))
