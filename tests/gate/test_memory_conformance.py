"""An engine of somebody else, in memory and without SQL, under the public conformance suite."""

from collections import defaultdict
from collections.abc import Sequence

import pytest

from holdfast.domain.stock.command import Command, Verdict
from holdfast.domain.stock.pool_time import pool_time
from holdfast.domain.stock.state import State
from holdfast.testing import GateConformance, GateHarness, LedgerSnapshot
from holdfast.testing.states import NOW
from model import Model


class Clock:
    now = NOW

    def advance(self, ms: int) -> None:
        self.now += ms


class Pools(defaultdict[str, Model]):
    """What all gates of the engine share."""

    def __missing__(self, sku_id: str) -> Model:
        self[sku_id] = Model(sku_id)
        return self[sku_id]

    async def read(self, sku_id: str) -> LedgerSnapshot:
        s = self[sku_id].snapshot
        return LedgerSnapshot(sku_id, s.pool, dict(s.reservations), dict(s.remembered), list(s.events))

    async def put(self, state: State) -> None:
        snapshot = self[state.sku_id].snapshot
        snapshot.pool = state.pool
        snapshot.reservations, snapshot.remembered = dict(state.reservations), dict(state.remembered)


class MemoryGate:
    def __init__(self, pools: Pools, clock: Clock) -> None:
        self._pools = pools
        self._clock = clock

    async def apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        model = self._pools[sku_id]
        decided_at = model.snapshot.events[-1].at if model.snapshot.events else 0
        return model.apply(commands, pool_time(self._clock.now, decided_at))


class TestMemoryGate(GateConformance):
    @pytest.fixture
    def harness(self) -> GateHarness:
        pools, clock = Pools(), Clock()
        return GateHarness(lambda: MemoryGate(pools, clock), clock, pools.read, pools.put)
