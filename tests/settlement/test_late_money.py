"""Money that came too late for its own reservation, and what can go wrong on its way to another unit."""

import pytest
from settle_money import REMOTE, check_money
from settle_sandbox import Sandbox
from settle_world import SKU, Providers, SettleWorld
from sqlalchemy import insert

from holdfast.domain.command import Move, Reserve, Transition
from holdfast.domain.reservation import new_reservation_id
from holdfast.domain.sale import payment_key_of
from holdfast.domain.settling import reacquired_id
from holdfast.ledger.sale_tables import orders, payments, refunds, settlements
from holdfast.ledger.tables import pools
from holdfast.payments.port import Charge
from valkeys import ValkeyProcess

pytest_plugins = ("settle_fixtures",)


async def paid_too_late(world: SettleWorld, providers: Providers, units: int, first: str | None = None) -> str:
    """Captured by the provider, and the reservation ended; it may have taken the place of another before."""
    await world.open_sale(units, REMOTE)
    bought = await world.buy("ada")
    key, provider = payment_key_of(first or bought), providers["sandbox"]
    await provider.capture(await provider.authorise(Charge(key, 1_000, "EUR", "ada", bought, REMOTE.sale_id)))
    values = {
        "payment_key": key, "reservation_id": bought, "sale_id": REMOTE.sale_id, "buyer_id": "ada",
        "provider": "sandbox", "amount": 1_000, "currency": "EUR", "state": "captured", "created_at": 0,
        "updated_at": 0,
    }  # fmt: skip
    await world.database.write(lambda c: c.execute(insert(payments), [values]))
    await world.apply(SKU, Move(Transition.FAIL, bought))
    await world.drain()
    return bought


async def settle_twice(world: SettleWorld, providers: Providers) -> None:
    """What took the place of another is work of its own, which may come only with the journal."""
    for _ in range(2):
        await world.settle_all(world.settler(providers))


async def test_a_key_of_the_buyers_own_choosing_changes_nothing(
    world: SettleWorld, sandbox: Sandbox, providers: Providers
) -> None:
    other = new_reservation_id(SKU, "ada")
    late = await paid_too_late(world, providers, 3)
    await world.apply(SKU, Reserve(other, "ada", 1, 1, key=f"again:{late}"), Move(Transition.CANCEL, other))
    await world.drain()
    await settle_twice(world, providers)
    assert (await world.one(orders)).reservation_id == reacquired_id(late)
    await check_money(world, sandbox)


@pytest.mark.parametrize("is_sold_out", [False, True])
async def test_who_took_the_place_of_another_and_ended_too_gets_a_third_or_the_money_back(
    world: SettleWorld, sandbox: Sandbox, providers: Providers, is_sold_out: bool
) -> None:
    second = await paid_too_late(world, providers, 1, first=new_reservation_id(SKU, "ada"))
    if is_sold_out:
        await world.apply(SKU, Reserve(new_reservation_id(SKU, "bob"), "bob", 1, 1))
        await world.drain()
    await settle_twice(world, providers)
    payment = await world.one(payments)
    if not is_sold_out:
        assert (await world.one(orders)).reservation_id == payment.reservation_id == reacquired_id(second)
        await check_money(world, sandbox)
        return
    assert await world.rows(orders) == []
    assert (await world.one(refunds)).payment_key == payment.payment_key
    assert payment.reservation_id == second


@pytest.mark.parametrize("place", ["redis"], indirect=True)
@pytest.mark.parametrize("is_sold_out", [False, True])
async def test_a_unit_that_the_gate_loses_before_the_ledger_has_it_is_asked_for_again(
    world: SettleWorld, sandbox: Sandbox, providers: Providers, steady_valkey: ValkeyProcess, is_sold_out: bool
) -> None:
    late = await paid_too_late(world, providers, 1)
    await world.settler(providers).settle_all()
    row = await world.one(settlements)
    assert (row.state, row.successor_id) == ("waiting", reacquired_id(late))
    steady_valkey.command("FLUSHALL")
    assert world.reconciler is not None
    await world.reconciler.pass_once(thorough=True)
    if is_sold_out:
        await world.apply(SKU, Reserve(new_reservation_id(SKU, "bob"), "bob", 1, 1))
        await world.drain()
    await settle_twice(world, providers)
    if not is_sold_out:
        await check_money(world, sandbox)
        assert (await world.one(pools)).sold == 1
        return
    assert await world.rows(orders) == []
    assert (await world.one(refunds)).payment_key == (await world.one(payments)).payment_key
    assert (await world.one(payments)).reservation_id == late
