"""Any sequence of credits, purchases and refunds: entries balance, and no wallet is overdrawn."""

import asyncio
import random
from collections import Counter, defaultdict

import pytest
from settle_harness import PRICE, SKU, SettleHarness
from sqlalchemy import Connection, select, update

from holdfast.domain.sale.sale import order_id_of
from holdfast.domain.stock.command import Reserve
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.gate.batcher import Batcher
from holdfast.ledger.money.refunds import RefundProblem, Wanted
from holdfast.ledger.money.wallet import KeyReused
from holdfast.ledger.tables.money import payments, wallet_accounts, wallet_entries
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import pools
from holdfast.settlement.refund import Refunder

pytest_plugins = ("settle_fixtures",)

BUYERS = ("ada", "bob", "eve")


async def check_laws(harness: SettleHarness) -> dict[str, int]:
    """Every transfer sums to zero, and every balance to its entries. Returns the balances."""
    entries = await harness.rows(wallet_entries)
    transfers: dict[str, int] = defaultdict(int)
    accounts: dict[str, int] = defaultdict(int)
    for entry in entries:
        transfers[entry.transfer_id] += entry.amount
        accounts[entry.account] += entry.amount
    assert set(transfers.values()) <= {0}
    balances = {row.buyer_id: row.balance for row in await harness.rows(wallet_accounts)}
    assert all(balance >= 0 for balance in balances.values())
    assert balances == {buyer: accounts[f"buyer:{buyer}"] for buyer in balances}
    return balances


async def test_any_history_balances_and_agrees_with_a_model(harness: SettleHarness, seed: int) -> None:
    chance = random.Random(seed)
    await harness.open_sale(1_000)
    settler, refunder = harness.settler(), Refunder(harness.database, {})
    model: Counter[str] = Counter()
    paid: dict[str, tuple[str, int]] = {}
    credited: dict[tuple[str, str], int] = {}
    for turn in range(30):
        buyer = chance.choice(BUYERS)
        match chance.choice(["credit", "credit again", "buy", "buy", "refund"]):
            case "credit":
                amount = chance.randrange(1, 4 * PRICE)
                await harness.wallet.credit(buyer, amount, "EUR", f"k{turn}")
                model[buyer] += amount
                credited[buyer, f"k{turn}"] = amount
            case "credit again" if credited:
                (buyer, key), amount = chance.choice(list(credited.items()))
                await harness.wallet.credit(buyer, amount, "EUR", key)
                with pytest.raises(KeyReused):
                    await harness.wallet.credit(buyer, amount + 1, "EUR", key)
            case "buy":
                wanted = [(who := chance.choice(BUYERS), await harness.buy(who, n)) for n in (1, 2)]
                await harness.settle_all(settler)
                for (who, bought), units in zip(wanted, (1, 2), strict=True):
                    if model[who] >= units * PRICE:
                        model[who] -= units * PRICE
                        paid[bought] = who, units * PRICE
            case "refund" if paid:
                bought, (who, left) = chance.choice(list(paid.items()))
                amount = chance.randrange(1, left + 2)
                try:
                    await refunder.request(Wanted(order_id_of(bought), f"r{turn}", amount))
                    model[who] += amount
                    paid[bought] = who, left - amount
                except RefundProblem:
                    assert amount > left
                if paid[bought][1] == 0:
                    del paid[bought]
        balances = await check_laws(harness)
        assert balances == {who: model[who] for who in balances}


async def test_a_debit_that_reads_and_then_writes_overdraws_and_ours_does_not(harness: SettleHarness) -> None:
    """The bug happens without the guard: two purchases read one balance, and both pay from it."""
    await harness.open_sale(10)
    await harness.wallet.credit("ada", PRICE, "EUR", "k")
    read_by_both = asyncio.Barrier(2)
    balance = select(wallet_accounts.c.balance)

    async def naive() -> bool:
        seen = await harness.database.read(lambda c: c.execute(balance).scalar_one())
        await read_by_both.wait()

        def write(connection: Connection) -> None:
            connection.execute(update(wallet_accounts).values(balance=seen - PRICE))

        await harness.database.write(write)
        return bool(seen >= PRICE)

    assert all(await asyncio.gather(naive(), naive()))
    await harness.database.write(lambda c: c.execute(update(wallet_accounts).values(balance=PRICE)))
    for _ in range(4):
        await harness.buy("ada")
    await asyncio.gather(*[harness.settle_all(harness.settler()) for _ in range(3)])
    assert len(await harness.rows(orders)) == 1
    assert (await check_laws(harness)) == {"ada": 0}


async def test_fifty_concurrent_purchases_under_one_key_are_charged_once(harness: SettleHarness) -> None:
    await harness.open_sale(100)
    await harness.wallet.credit("ada", 50 * PRICE, "EUR", "k")
    batcher, settler = Batcher(harness.gate), harness.settler()
    asked = [
        batcher.submit(SKU, Reserve(new_reservation_id(SKU, "ada"), "ada", 1, 1, key="one", settle=True))
        for _ in range(50)
    ]
    settling = asyncio.create_task(settler.agent().run())
    verdicts = await asyncio.gather(*asked)
    settling.cancel()
    await harness.drain()
    await harness.settle_all(harness.settler())
    assert len({v.reservation.reservation_id for v in verdicts if v.reservation is not None}) == 1
    assert len(await harness.rows(payments)) == len(await harness.rows(orders)) == 1
    assert (await harness.one(pools)).sold == 1
    assert (await check_laws(harness)) == {"ada": 49 * PRICE}
