"""Wallet orders: paid in the same transaction as the order, on every engine."""

import asyncio

import pytest
from settle_harness import PRICE, SALE, SKU, SettleHarness, other_sale
from sqlalchemy import delete, insert

from holdfast.domain.sale.settling_case import Work
from holdfast.domain.stock.command import Move, Reserve, Transition
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.ledger.tables.money import payments, settlements, wallet_accounts, wallet_entries
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import claims, events, pools, reservations
from holdfast.settlement.interpreter import BATCH_MAX
from valkeys import ValkeyProcess

pytest_plugins = ("settle_fixtures",)


async def test_a_buyer_with_funds_gets_an_order(harness: SettleHarness) -> None:
    await harness.open_sale(5)
    await harness.wallet.credit("ada", 2_500, "EUR", "k")
    bought = await harness.buy("ada", 2)
    await harness.settle_all(harness.settler())
    order = await harness.one(orders)
    assert (order.reservation_id, order.amount, order.payment, order.status) == (bought, 2_000, "wallet", "confirmed")
    assert (await harness.one(payments)).state == "captured"
    assert (await harness.one(wallet_accounts)).balance == 500
    assert (await harness.one(reservations)).status == "confirmed"
    pool = await harness.one(pools)
    assert (pool.held, pool.sold) == (0, 2)
    assert await harness.rows(claims) == []
    assert [e.type for e in await harness.rows(events)].count("order.confirmed") == 1
    assert (await harness.one(settlements)).state == "done"
    assert sum(e.amount for e in await harness.rows(wallet_entries)) == 0


async def test_units_return_once_if_funds_are_insufficient(harness: SettleHarness) -> None:
    await harness.open_sale(5)
    await harness.wallet.credit("ada", PRICE - 1, "EUR", "k")
    await harness.buy("ada")
    await harness.settle_all(harness.settler())
    assert await harness.rows(orders) == []
    assert (await harness.one(payments)).reason == "insufficient_funds"
    assert (await harness.one(reservations)).status == "failed"
    pool = await harness.one(pools)
    assert (pool.held, pool.sold) == (0, 0)
    assert (await harness.one(wallet_accounts)).balance == PRICE - 1


async def test_the_first_reservations_are_paid_first(harness: SettleHarness) -> None:
    await harness.open_sale(9)
    await harness.wallet.credit("ada", 3 * PRICE, "EUR", "k")
    first = [await harness.buy("ada") for _ in range(5)]
    await harness.settle_all(harness.settler())
    assert {o.reservation_id for o in await harness.rows(orders)} == set(first[:3])
    assert (await harness.one(wallet_accounts)).balance == 0


async def test_a_free_order_needs_no_wallet(harness: SettleHarness) -> None:
    await harness.open_sale(3, other_sale(SKU, price_amount=0))
    await harness.buy("ada")
    await harness.settle_all(harness.settler())
    assert (await harness.one(orders)).amount == 0
    assert await harness.rows(wallet_entries) == []


async def test_several_settlers_pay_each_order_once(harness: SettleHarness) -> None:
    await harness.open_sale(400)
    await harness.wallet.credit("ada", 1_000 * PRICE, "EUR", "k")
    await harness.buy_all([Reserve(new_reservation_id(SKU, "ada"), "ada", 1, 1, settle=True) for _ in range(300)])
    await asyncio.gather(*[harness.settle_all(harness.settler()) for _ in range(4)])
    assert len(await harness.rows(orders)) == 300
    assert (await harness.one(wallet_accounts)).balance == 700 * PRICE
    assert (await harness.one(pools)).sold == 300


async def test_an_externally_confirmed_reservation_is_not_charged(harness: SettleHarness) -> None:
    await harness.open_sale(3)
    await harness.wallet.credit("ada", PRICE, "EUR", "k")
    bought = await harness.buy("ada")
    await harness.apply(SKU, Move(Transition.CONFIRM, bought))
    await harness.settle_all(harness.settler())
    await harness.drain()
    assert (await harness.one(orders)).payment == "external"
    assert (await harness.one(wallet_accounts)).balance == PRICE
    assert await harness.rows(payments) == []


async def test_an_invalid_row_is_parked_and_the_rest_goes_on(harness: SettleHarness) -> None:
    await harness.open_sale(5)
    await harness.wallet.credit("ada", 5 * PRICE, "EUR", "k")
    await harness.buy("ada")
    poison = {"sku_id": SKU, "buyer_id": "eve", "quantity": 1, "due_at": 0, "created_at": 0}
    rows = [
        poison | {"reservation_id": "not-an-id", "sale_id": SALE.sale_id},
        poison | {"reservation_id": f"rsv_{9:032}_{SKU}", "sale_id": "no-such-sale"},
    ]
    await harness.database.write(lambda c: c.execute(insert(settlements), rows))
    await harness.settle_all(harness.settler())
    states = {row.reservation_id: (row.state, row.reason) for row in await harness.rows(settlements)}
    assert sorted(state for state, _ in states.values()) == ["done", "parked", "parked"]
    assert states["not-an-id"][1] == "the reservation is unknown"
    assert len(await harness.rows(orders)) == 1


@pytest.mark.parametrize("place", ["redis"], indirect=True)
async def test_an_order_survives_a_flushed_redis_that_was_not_notified(
    harness: SettleHarness, steady_valkey: ValkeyProcess
) -> None:
    assert harness.reconciler is not None
    await harness.open_sale(3)
    await harness.wallet.credit("ada", PRICE, "EUR", "k")
    bought = await harness.buy("ada")
    posting = harness.posting()
    [record] = await harness.database.write(lambda c: posting.settle_due(c, SKU, 10))
    assert (record.case.work, record.case.ending) == (Work.NOTIFYING, Transition.CONFIRM)
    steady_valkey.command("FLUSHALL")
    await harness.reconciler.pass_once(thorough=True)
    await harness.settle_all(harness.settler())
    assert (await harness.one(orders)).reservation_id == bought
    assert (await harness.one(pools)).sold == 1
    assert (await harness.one(reservations)).status == "confirmed"


@pytest.mark.parametrize("place", ["redis"], indirect=True)
async def test_the_gate_does_not_claim_again_what_the_settler_has_claimed(harness: SettleHarness) -> None:
    await harness.open_sale(3)
    await harness.wallet.credit("ada", PRICE, "EUR", "k")
    await harness.buy("ada")
    posting = harness.posting()
    [record] = await harness.database.write(lambda c: posting.settle_due(c, SKU, 10))
    assert (await harness.one(claims)).reservation_id == record.reservation_id
    await harness.database.write(lambda c: c.execute(delete(claims)))
    await harness.settler().interpreter.proceed(record)
    assert await harness.rows(claims) == []
    await harness.drain()
    assert (await harness.one(pools)).sold == 1


async def test_a_large_sale_does_not_starve_a_small_one(harness: SettleHarness) -> None:
    await harness.open_sale(500)
    small = other_sale("rare")
    await harness.open_sale(5, small)
    await harness.wallet.credit("ada", 1_000 * PRICE, "EUR", "k")
    await harness.buy_all([Reserve(new_reservation_id(SKU, "ada"), "ada", 1, 1, settle=True) for _ in range(300)])
    await harness.buy("ada", sku_id="rare")
    await harness.settler().settle_all()
    told = [e for e in await harness.rows(events) if e.type == "order.confirmed"]
    sold = [e.sku_id for e in sorted(told, key=lambda e: e.seq)]
    assert len(sold) == 301
    assert sold.index("rare") <= BATCH_MAX
