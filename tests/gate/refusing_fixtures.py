"""The stores of `refusing_shops.py`. The fixtures of a plugin are global, so their names must be unique."""

import pytest
from refusing_shops import Store, opened, postgres_store

from conftest import Swept
from holdfast.gate.redis.owners import RedisOwners
from holdfast.ledger.engine.database import SharedDatabase
from holdfast.testing.states import SKU
from redis_setup import RedisSetup


@pytest.fixture
async def remote_postgres(_swept_postgres_url: str, swept: Swept) -> SharedDatabase:
    return await opened(await swept(_swept_postgres_url))


@pytest.fixture
def postgres_url_of_store(_swept_postgres_url: str) -> str:
    return _swept_postgres_url


@pytest.fixture
async def remote_redis(redis_setup: RedisSetup) -> Store:
    await redis_setup.client.load_library()
    feed = RedisOwners(redis_setup.client, redis_setup.clock)
    return Store(redis_setup.open_gate, feed, lambda: redis_setup.drain(SKU))


@pytest.fixture(params=["postgresql", "redis"])
def remote_store(request: pytest.FixtureRequest) -> Store:
    found: Store = (
        request.getfixturevalue("remote_redis")
        if request.param == "redis"
        else postgres_store(request.getfixturevalue("remote_postgres"))
    )
    return found
