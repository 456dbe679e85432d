"""The gate in Valkey under the conformance suite."""

import pytest
from conformance import GateConformance
from desk import Desk, redis_desk

from redis_world import RedisWorld


@pytest.fixture
def desk(redis_world: RedisWorld) -> Desk:
    return redis_desk(redis_world)


class TestRedisGate(GateConformance):
    pass
