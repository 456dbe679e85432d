"""Wallet orders: paid in the same transaction as the order, on every engine."""

import asyncio

import pytest
from settle_world import PRICE, SALE, SKU, SettleWorld, other_sale
from sqlalchemy import insert

from holdfast.domain.command import Move, Reserve, Transition
from holdfast.domain.reservation import new_reservation_id
from holdfast.ledger.sale_tables import orders, payments, settlements, wallet_accounts, wallet_entries
from holdfast.ledger.tables import claims, events, pools, reservations
from holdfast.settlement.settle import BATCH_MAX
from valkeys import ValkeyProcess

pytest_plugins = ("settle_fixtures",)


async def test_who_can_pay_gets_an_order(world: SettleWorld) -> None:
    await world.open_sale(5)
    await world.wallet.credit("ada", 2_500, "EUR", "k")
    bought = await world.buy("ada", 2)
    await world.settle_all(world.settler())
    order = await world.one(orders)
    assert (order.reservation_id, order.amount, order.payment, order.status) == (bought, 2_000, "wallet", "confirmed")
    assert (await world.one(payments)).state == "captured"
    assert (await world.one(wallet_accounts)).balance == 500
    assert (await world.one(reservations)).status == "confirmed"
    pool = await world.one(pools)
    assert (pool.held, pool.sold) == (0, 2)
    assert await world.rows(claims) == []
    assert [e.type for e in await world.rows(events)].count("order.confirmed") == 1
    assert (await world.one(settlements)).state == "done"
    assert sum(e.amount for e in await world.rows(wallet_entries)) == 0


async def test_who_cannot_pay_returns_the_units_once(world: SettleWorld) -> None:
    await world.open_sale(5)
    await world.wallet.credit("ada", PRICE - 1, "EUR", "k")
    await world.buy("ada")
    await world.settle_all(world.settler())
    assert await world.rows(orders) == []
    assert (await world.one(payments)).reason == "insufficient_funds"
    assert (await world.one(reservations)).status == "failed"
    pool = await world.one(pools)
    assert (pool.held, pool.sold) == (0, 0)
    assert (await world.one(wallet_accounts)).balance == PRICE - 1


async def test_money_goes_to_those_who_came_first(world: SettleWorld) -> None:
    await world.open_sale(9)
    await world.wallet.credit("ada", 3 * PRICE, "EUR", "k")
    first = [await world.buy("ada") for _ in range(5)]
    await world.settle_all(world.settler())
    assert {o.reservation_id for o in await world.rows(orders)} == set(first[:3])
    assert (await world.one(wallet_accounts)).balance == 0


async def test_nothing_to_pay_needs_no_wallet(world: SettleWorld) -> None:
    await world.open_sale(3, other_sale(SKU, price_amount=0))
    await world.buy("ada")
    await world.settle_all(world.settler())
    assert (await world.one(orders)).amount == 0
    assert await world.rows(wallet_entries) == []


async def test_several_settlers_pay_each_order_once(world: SettleWorld) -> None:
    await world.open_sale(400)
    await world.wallet.credit("ada", 1_000 * PRICE, "EUR", "k")
    await world.buy_all([Reserve(new_reservation_id(SKU, "ada"), "ada", 1, 1, settle=True) for _ in range(300)])
    await asyncio.gather(*[world.settle_all(world.settler()) for _ in range(4)])
    assert len(await world.rows(orders)) == 300
    assert (await world.one(wallet_accounts)).balance == 700 * PRICE
    assert (await world.one(pools)).sold == 300


async def test_what_somebody_else_confirmed_is_not_charged(world: SettleWorld) -> None:
    await world.open_sale(3)
    await world.wallet.credit("ada", PRICE, "EUR", "k")
    bought = await world.buy("ada")
    await world.apply(SKU, Move(Transition.CONFIRM, bought))
    await world.settle_all(world.settler())
    await world.drain()
    assert (await world.one(orders)).payment == "external"
    assert (await world.one(wallet_accounts)).balance == PRICE
    assert await world.rows(payments) == []


async def test_a_poisoned_item_is_parked_and_the_rest_flows(world: SettleWorld) -> None:
    await world.open_sale(5)
    await world.wallet.credit("ada", 5 * PRICE, "EUR", "k")
    await world.buy("ada")
    poison = {"sku_id": SKU, "buyer_id": "eve", "quantity": 1, "due_at": 0, "created_at": 0}
    rows = [
        poison | {"reservation_id": "not-an-id", "sale_id": SALE.sale_id},
        poison | {"reservation_id": f"rsv_{9:032}_{SKU}", "sale_id": "no-such-sale"},
    ]
    await world.database.write(lambda c: c.execute(insert(settlements), rows))
    await world.settle_all(world.settler())
    states = {row.reservation_id: (row.state, row.reason) for row in await world.rows(settlements)}
    assert sorted(state for state, _ in states.values()) == ["done", "parked", "parked"]
    assert states["not-an-id"][1] == "the reservation is not known"
    assert len(await world.rows(orders)) == 1


@pytest.mark.parametrize("place", ["redis"], indirect=True)
async def test_an_order_stands_though_redis_forgets_everything_before_it_is_told(
    world: SettleWorld, steady_valkey: ValkeyProcess
) -> None:
    assert world.reconciler is not None
    await world.open_sale(3)
    await world.wallet.credit("ada", PRICE, "EUR", "k")
    bought = await world.buy("ada")
    desk = world.desk()
    [case] = await world.database.write(lambda c: desk.settle_due(c, SKU, 10))
    assert (case.work["state"], case.ending) == ("telling", Transition.CONFIRM)
    steady_valkey.command("FLUSHALL")
    await world.reconciler.pass_once(thorough=True)
    await world.settle_all(world.settler())
    assert (await world.one(orders)).reservation_id == bought
    assert (await world.one(pools)).sold == 1
    assert (await world.one(reservations)).status == "confirmed"


async def test_a_large_sale_does_not_starve_a_small_one(world: SettleWorld) -> None:
    await world.open_sale(500)
    small = other_sale("rare")
    await world.open_sale(5, small)
    await world.wallet.credit("ada", 1_000 * PRICE, "EUR", "k")
    await world.buy_all([Reserve(new_reservation_id(SKU, "ada"), "ada", 1, 1, settle=True) for _ in range(300)])
    await world.buy("ada", sku_id="rare")
    await world.settler().settle_all()
    told = [e for e in await world.rows(events) if e.type == "order.confirmed"]
    sold = [e.sku_id for e in sorted(told, key=lambda e: e.seq)]
    assert len(sold) == 301
    assert sold.index("rare") <= BATCH_MAX
