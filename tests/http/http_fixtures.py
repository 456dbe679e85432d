"""What the tests of HTTP share.

A pytest plugin and not a conftest.py, because mypy knows one module by the name of `conftest` and not two.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import pytest
from http_calling import Shop
from http_sales import Store, store_of
from http_serving import Server, database_setting, started

from conftest import ENGINES
from valkeys import ValkeyProcess, running_valkey

ServerOn = Callable[[str], Server]
# Shorter pauses are not worth a stop and a start.
_PAUSE_S = 2.0
# With Redis, a server reads the journal of every pool several times a second. Those of so many tests take longer than a
# start with none.
_TESTS_ON_REDIS_MAX = 24


class SharedServers:
    """One server per engine and test process, started when first asked for.

    Servers with nothing to do need some of the processors, too. So before each test those stop that neither it nor
    its file needs, and the ones it needs are started again, on their ports and with what they have stored. Only Redis
    is a new one for a file that begins after many tests.
    """

    def __init__(self, start: Callable[[str], Server], renew: Callable[[str, Server], None]) -> None:
        self._start = start
        self._renew = renew
        self._tests_on_redis = 0
        self._servers: dict[str, Server] = {}
        self._asleep: set[str] = set()
        self._needed: dict[str, tuple[Path, float]] = {}

    def __call__(self, engine: str) -> Server:
        if engine not in self._servers:
            self._servers[engine] = self._start(engine)
        return self._servers[engine]

    def prepare(self, item: pytest.Item) -> None:
        needed = _engines_of(item) & self._servers.keys()
        if "redis" in needed:
            self._renew_redis(item)
        for engine in needed:
            self._needed[engine] = item.path, monotonic()
            if engine in self._asleep:
                self._asleep.remove(engine)
                self._servers[engine].wake()
        for engine in self._servers.keys() - needed - self._asleep:
            if not self._is_needed_soon(engine, item):
                self._asleep.add(engine)
                self._servers[engine].sleep()

    def _renew_redis(self, item: pytest.Item) -> None:
        file, _ = self._needed.get("redis", (item.path, 0.0))
        self._tests_on_redis += 1
        if file != item.path and self._tests_on_redis > _TESTS_ON_REDIS_MAX:
            self._tests_on_redis = 1
            self._asleep.discard("redis")
            self._renew("redis", self._servers["redis"])

    def _is_needed_soon(self, engine: str, item: pytest.Item) -> bool:
        file, at = self._needed.setdefault(engine, (item.path, monotonic()))
        return file == item.path or monotonic() < at + _PAUSE_S


_shared: list[SharedServers] = []


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for servers in _shared:
        servers.prepare(item)


def _engines_of(item: pytest.Item) -> set[str]:
    names = getattr(item, "fixturenames", ())
    callspec = getattr(item, "callspec", None)
    if "server_on" not in names:
        return set()
    chosen = {callspec.params["server"]} if callspec is not None and "server" in callspec.params else set()
    return chosen | ({"sqlite"} if "embedded" in names else set())


@pytest.fixture(scope="session")
def http_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyProcess]:
    """One that nobody flushes under the servers."""
    with running_valkey(tmp_path_factory.mktemp("http-valkey"), databases="64") as server:
        yield server


@pytest.fixture(scope="session")
def server_on(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerOn]:
    with ExitStack() as running:

        def start(engine: str) -> Server:
            setting = database_setting(engine, request)
            return running.enter_context(started(tmp_path_factory.mktemp(engine), settings=setting))

        def renew(engine: str, server: Server) -> None:
            server.move(tmp_path_factory.mktemp(engine), database_setting(engine, request))

        servers = SharedServers(start, renew)
        _shared.append(servers)
        yield servers
        _shared.remove(servers)


@pytest.fixture(scope="session", params=[*ENGINES, "redis"])
def server(request: pytest.FixtureRequest, server_on: ServerOn) -> Server:
    """A server on each engine in turn, for all tests that leave it as it was."""
    return server_on(request.param)


@pytest.fixture(scope="session")
def embedded(server_on: ServerOn) -> Server:
    """A server on SQLite, for tests of what lies in front of the engine."""
    return server_on("sqlite")


@pytest.fixture
def shop(server: Server) -> Shop:
    return server.shop()


@pytest.fixture
def store(server: Server) -> Store:
    return store_of(server)


@pytest.fixture
def quick(embedded: Server) -> Store:
    """Where the engine makes no difference."""
    return store_of(embedded)
