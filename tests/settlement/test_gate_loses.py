"""What a gate in Redis said, and then lost before the ledger had read of it, is said again."""

import pytest
from settle_world import SKU, SettleWorld

from holdfast.gate.encoding import Keys
from holdfast.ledger.sale_tables import settlements
from holdfast.ledger.tables import pools, reservations
from valkeys import ValkeyProcess

pytest_plugins = ("settle_fixtures",)
pytestmark = pytest.mark.parametrize("place", ["redis"], indirect=True)


async def rebuild(world: SettleWorld) -> None:
    assert world.reconciler is not None
    await world.reconciler.pass_once(thorough=True)
    await world.drain()


async def test_units_return_though_the_gate_loses_that_they_did(
    world: SettleWorld, steady_valkey: ValkeyProcess
) -> None:
    await world.open_sale(1)
    await world.buy("ada")
    settler = world.settler()
    await settler.settle_all()
    # There was no money for it. The gate has heard, the ledger has not: that is not the end of it.
    assert (await world.one(settlements)).state == "telling"
    steady_valkey.command("FLUSHALL")
    await rebuild(world)
    assert (await world.one(reservations)).status == "settling"
    await world.settle_all(settler)
    assert (await world.one(reservations)).status == "failed"
    assert (await world.one(pools)).held == 0
    assert (await world.one(settlements)).reason == "insufficient_funds"


async def test_a_gate_that_has_lost_the_hold_is_not_taken_for_having_returned_it(
    world: SettleWorld, steady_valkey: ValkeyProcess
) -> None:
    await world.open_sale(1)
    await world.buy("ada")
    steady_valkey.command("DEL", Keys(SKU).holds)
    settler = world.settler()
    await settler.settle_all()
    assert (await world.one(settlements)).state == "telling"
    await rebuild(world)
    await world.settle_all(settler)
    assert (await world.one(reservations)).status == "failed"
    assert (await world.one(pools)).held == 0
