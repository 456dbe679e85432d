"""What the tests of HTTP share.

A pytest plugin and not a conftest.py, because mypy knows one module by the name of `conftest` and not two.
"""

from collections.abc import Iterator

import pytest
from http_calling import Shop
from http_sales import Store, store_of
from http_serving import Server, database_setting, started

from conftest import ENGINES
from valkeys import ValkeyProcess, running_valkey


@pytest.fixture(scope="session")
def http_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyProcess]:
    """One that nobody flushes under the servers."""
    with running_valkey(tmp_path_factory.mktemp("http-valkey"), databases="64") as server:
        yield server


@pytest.fixture(scope="session", params=[*ENGINES, "redis"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server per engine, for all tests that leave it as it was."""
    setting = database_setting(request.param, request)
    with started(tmp_path_factory.mktemp(request.param), settings=setting) as server:
        yield server


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on SQLite, for tests of what lies in front of the engine."""
    with started(tmp_path_factory.mktemp("embedded")) as server:
        yield server


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
