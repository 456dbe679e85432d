"""What the tests of HTTP share.

A pytest plugin and not a conftest.py, because mypy knows one module by the name of `conftest` and not two.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest
from http_calling import Shop
from http_sales import Store, store_of
from http_serving import Server, database_setting, started

from conftest import ENGINES
from valkeys import ValkeyProcess, running_valkey

ServerOn = Callable[[str], Server]


@pytest.fixture(scope="session")
def http_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyProcess]:
    """One that nobody flushes under the servers."""
    with running_valkey(tmp_path_factory.mktemp("http-valkey"), databases="64") as server:
        yield server


@pytest.fixture(scope="session")
def server_on(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerOn]:
    """One server per engine and test process, started when first asked for and kept until the end of the run."""
    with ExitStack() as running:

        @cache
        def start(engine: str) -> Server:
            setting = database_setting(engine, request)
            return running.enter_context(started(tmp_path_factory.mktemp(engine), settings=setting))

        yield start


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
