"""The gate in Valkey under the conformance suite: by itself, and behind the one that splits pools into shards."""

import pytest
from gate_harness import redis_harness

from holdfast.testing.conformance import GateConformance
from holdfast.testing.harness import GateHarness
from redis_setup import RedisSetup


@pytest.fixture
def harness(redis_setup: RedisSetup) -> GateHarness:
    return redis_harness(redis_setup)


class TestRedisGate(GateConformance):
    pass


class TestWholePoolsOfTheShardedGate(GateConformance):
    @pytest.fixture
    def harness(self, redis_setup: RedisSetup) -> GateHarness:
        return redis_harness(redis_setup, redis_setup.open_sharded_gate)
