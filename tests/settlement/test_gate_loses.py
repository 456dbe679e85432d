"""What a Redis gate acknowledged and lost before the ledger had read it is sent again."""

import pytest
from settle_harness import PRICE, SKU, Providers, SettleHarness, other_sale

from holdfast.domain.sale.sale import PaymentKind
from holdfast.domain.stock.command import Provision
from holdfast.domain.stock.pool import RuleChanges
from holdfast.gate.redis.encoding import Keys
from holdfast.ledger.tables.money import payments, refunds, settlements
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import pools, reservations
from valkeys import ValkeyProcess

pytest_plugins = ("settle_fixtures",)
pytestmark = pytest.mark.parametrize("place", ["redis"], indirect=True)


async def rebuild(harness: SettleHarness) -> None:
    assert harness.reconciler is not None
    await harness.reconciler.pass_once(thorough=True)
    await harness.drain()


async def test_units_return_although_the_gate_loses_the_return(
    harness: SettleHarness, steady_valkey: ValkeyProcess
) -> None:
    await harness.open_sale(1)
    await harness.buy("ada")
    settler = harness.settler()
    await settler.settle_all()
    # There was no money for it. The gate has heard, the ledger has not: that is not the end of it.
    assert (await harness.one(settlements)).state == "notifying"
    steady_valkey.command("FLUSHALL")
    await rebuild(harness)
    assert (await harness.one(reservations)).status == "settling"
    await harness.settle_all(settler)
    assert (await harness.one(reservations)).status == "failed"
    assert (await harness.one(pools)).held == 0
    assert (await harness.one(settlements)).reason == "insufficient_funds"


async def test_a_hold_the_gate_lost_does_not_count_as_returned(
    harness: SettleHarness, steady_valkey: ValkeyProcess
) -> None:
    await harness.open_sale(1)
    await harness.buy("ada")
    steady_valkey.command("DEL", Keys(SKU).holds)
    settler = harness.settler()
    await settler.settle_all()
    assert (await harness.one(settlements)).state == "notifying"
    await rebuild(harness)
    await harness.settle_all(settler)
    assert (await harness.one(reservations)).status == "failed"
    assert (await harness.one(pools)).held == 0


async def test_a_gate_that_cannot_be_notified_is_tried_again_ever_more_rarely(
    harness: SettleHarness, steady_valkey: ValkeyProcess
) -> None:
    await harness.open_sale(1)
    await harness.buy("ada")
    steady_valkey.command("DEL", Keys(SKU).holds)
    settler, pauses = harness.settler(), []
    for _ in range(8):
        await harness.make_due()
        await settler.settle_all()
        now = await harness.database.read(harness.database.now_ms)
        pauses.append((await harness.one(settlements)).due_at - now)
    assert pauses[-1] > 3_000
    assert max(pauses) <= 10_000
    await rebuild(harness)
    await harness.settle_all(settler)


@pytest.mark.parametrize("payment", [PaymentKind.SANDBOX, PaymentKind.WALLET])
async def test_a_buyer_beyond_the_limit_is_not_charged_although_the_gate_lost_count(
    harness: SettleHarness,
    steady_valkey: ValkeyProcess,
    providers: Providers,
    payment: PaymentKind,
) -> None:
    await harness.wallet.credit("ada", 10 * PRICE, "EUR", "k")
    await harness.open_sale(5, other_sale(SKU, payment=payment, per_buyer_limit=1))
    first = await harness.buy("ada")
    # Such that the manifest does not tell.
    steady_valkey.command("HDEL", Keys(SKU).owners, "ada")
    steady_valkey.command("HINCRBY", Keys(SKU).pool, "n_owners", -1)
    second = await harness.buy("ada")
    await harness.settle_all(harness.settler(providers))
    rows = await harness.rows(reservations)
    assert sorted(row.status for row in rows) == ["confirmed", "failed"]
    [order] = await harness.rows(orders)
    states = {row.reservation_id: row.state for row in await harness.rows(payments)}
    assert states.pop(order.reservation_id) == "captured"
    [refused] = {first, second} - {order.reservation_id}
    assert states[refused] == ("voided" if payment is PaymentKind.SANDBOX else "declined")
    assert not await harness.rows(refunds)


@pytest.mark.parametrize("payment", [PaymentKind.SANDBOX, PaymentKind.WALLET])
@pytest.mark.parametrize("before", [4, None])
async def test_a_buyer_whose_hold_is_older_than_the_limit_gets_what_they_hold(
    harness: SettleHarness, providers: Providers, payment: PaymentKind, before: int | None
) -> None:
    await harness.wallet.credit("ada", 10 * PRICE, "EUR", "k")
    await harness.open_sale(5, other_sale(SKU, payment=payment, per_buyer_limit=before))
    await harness.buy("ada", 3)
    await harness.apply(SKU, Provision(None, changes=RuleChanges(per_owner_limit=2)))
    await harness.drain()
    await harness.settle_all(harness.settler(providers))
    assert (await harness.one(reservations)).status == "confirmed"
    assert (await harness.one(payments)).state == "captured"
