"""A stall on each engine."""

from collections.abc import AsyncIterator

import pytest
from stall import Stall

from conftest import Swept
from holdfast.gate.reconciler import Reconciler
from holdfast.gate.sql import SqlGate
from holdfast.gate.sql_audit import SqlAudit
from redis_setup import RedisSetup
from set_clock import SetClock
from valkeys import ValkeyProcess


@pytest.fixture
async def stall(site: tuple[str, ValkeyProcess | None], swept: Swept) -> AsyncIterator[Stall]:
    url, valkey = site
    database = await swept(url)
    if valkey is not None:
        valkey.command("FLUSHALL")
        world = RedisSetup(database, valkey.url)
        yield Stall(world.clock, world.open_gate(), world.reconciler, world.drainer.catch_up, world)
        await world.close()
        return
    clock = SetClock(database)

    async def nothing(_sku_id: str | None) -> None:
        """The ledger is the gate."""

    yield Stall(clock, SqlGate(clock), Reconciler(clock, SqlAudit(clock)), nothing)
