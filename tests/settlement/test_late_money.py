"""Money that came too late for its reservation, and what can go wrong with its replacement."""

import pytest
from settle_harness import SKU, Providers, SettleHarness
from settle_money import REMOTE, check_money
from settle_sandbox import Sandbox
from sqlalchemy import insert

from holdfast.domain.sale.sale import payment_key_of, reacquired_id
from holdfast.domain.stock.command import Move, Reserve, Transition
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.ledger.tables.money import payments, refunds, settlements
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import pools
from holdfast.payments.port import Charge
from valkeys import ValkeyProcess

pytest_plugins = ("settle_fixtures",)


async def paid_too_late(harness: SettleHarness, providers: Providers, units: int, first: str | None = None) -> str:
    """Captured by the provider, and the reservation ended; it may be a replacement itself."""
    await harness.open_sale(units, REMOTE)
    bought = await harness.buy("ada")
    key, provider = payment_key_of(first or bought), providers["sandbox"]
    await provider.capture(await provider.authorise(Charge(key, 1_000, "EUR", "ada", bought, REMOTE.sale_id)))
    values = {
        "payment_key": key, "reservation_id": bought, "sale_id": REMOTE.sale_id, "buyer_id": "ada",
        "provider": "sandbox", "amount": 1_000, "currency": "EUR", "state": "captured", "created_at": 0,
        "updated_at": 0,
    }  # fmt: skip
    await harness.database.write(lambda c: c.execute(insert(payments), [values]))
    await harness.apply(SKU, Move(Transition.FAIL, bought))
    await harness.drain()
    return bought


async def settle_twice(harness: SettleHarness, providers: Providers) -> None:
    """A replacement has a settlement of its own, which may arrive with the journal."""
    for _ in range(2):
        await harness.settle_all(harness.settler(providers))


async def test_a_buyers_key_cannot_collide_with_the_internal_key(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    other = new_reservation_id(SKU, "ada")
    late = await paid_too_late(harness, providers, 3)
    await harness.apply(SKU, Reserve(other, "ada", 1, 1, key=f"again:{late}"), Move(Transition.CANCEL, other))
    await harness.drain()
    await settle_twice(harness, providers)
    assert (await harness.one(orders)).reservation_id == reacquired_id(late)
    await check_money(harness, sandbox)


@pytest.mark.parametrize("is_sold_out", [False, True])
async def test_a_replacement_that_ended_is_replaced_or_refunded(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers, is_sold_out: bool
) -> None:
    second = await paid_too_late(harness, providers, 1, first=new_reservation_id(SKU, "ada"))
    if is_sold_out:
        await harness.apply(SKU, Reserve(new_reservation_id(SKU, "bob"), "bob", 1, 1))
        await harness.drain()
    await settle_twice(harness, providers)
    payment = await harness.one(payments)
    if not is_sold_out:
        assert (await harness.one(orders)).reservation_id == payment.reservation_id == reacquired_id(second)
        await check_money(harness, sandbox)
        return
    assert await harness.rows(orders) == []
    assert (await harness.one(refunds)).payment_key == payment.payment_key
    assert payment.reservation_id == second


@pytest.mark.parametrize("place", ["redis"], indirect=True)
@pytest.mark.parametrize("is_sold_out", [False, True])
async def test_a_replacement_the_gate_loses_is_requested_again(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers, steady_valkey: ValkeyProcess, is_sold_out: bool
) -> None:
    late = await paid_too_late(harness, providers, 1)
    await harness.settler(providers).settle_all()
    row = await harness.one(settlements)
    assert (row.state, row.successor_id) == ("waiting", reacquired_id(late))
    steady_valkey.command("FLUSHALL")
    assert harness.reconciler is not None
    await harness.reconciler.pass_once(thorough=True)
    if is_sold_out:
        await harness.apply(SKU, Reserve(new_reservation_id(SKU, "bob"), "bob", 1, 1))
        await harness.drain()
    await settle_twice(harness, providers)
    if not is_sold_out:
        await check_money(harness, sandbox)
        assert (await harness.one(pools)).sold == 1
        return
    assert await harness.rows(orders) == []
    assert (await harness.one(refunds)).payment_key == (await harness.one(payments)).payment_key
    assert (await harness.one(payments)).reservation_id == late
