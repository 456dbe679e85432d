"""One demo server for all storefront tests. Each test has a sale of its own, and each window is a buyer."""

from collections.abc import Iterator

import pytest
from http_serving import Server, started

from forking import HOLDFAST


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with started(
        tmp_path_factory.mktemp("demo"), "--no-crowd", "--no-simulation", command=(*HOLDFAST, "demo")
    ) as server:
        yield server
