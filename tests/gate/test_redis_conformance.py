"""The gate in Valkey under the conformance suite: by itself, and behind the one that splits pools into shards."""

import pytest
from conformance import GateConformance
from desk import Desk, redis_desk

from redis_world import RedisWorld


@pytest.fixture
def desk(redis_world: RedisWorld) -> Desk:
    return redis_desk(redis_world)


class TestRedisGate(GateConformance):
    pass


class TestWholePoolsOfTheShardedGate(GateConformance):
    @pytest.fixture
    def desk(self, redis_world: RedisWorld) -> Desk:
        return redis_desk(redis_world, redis_world.open_sharded_gate)
