"""Whatever is credited, bought and refunded in whatever order: the books add up, and nobody goes below zero."""

import asyncio
import random
from collections import Counter, defaultdict

import pytest
from settle_world import PRICE, SKU, SettleWorld
from sqlalchemy import Connection, select, update

from holdfast.domain.command import Reserve
from holdfast.domain.reservation import new_reservation_id
from holdfast.domain.sale import order_id_of
from holdfast.gate.batcher import Batcher
from holdfast.ledger.refunds import RefundProblem, Wanted
from holdfast.ledger.sale_tables import orders, payments, wallet_accounts, wallet_entries
from holdfast.ledger.tables import pools
from holdfast.ledger.wallet import KeyReused
from holdfast.settlement.refund import Refunder

pytest_plugins = ("settle_fixtures",)

BUYERS = ("ada", "bob", "eve")


async def check_laws(world: SettleWorld) -> dict[str, int]:
    """Every transfer adds up to nothing, every balance is what its entries say. Gives the balances."""
    entries = await world.rows(wallet_entries)
    transfers: dict[str, int] = defaultdict(int)
    accounts: dict[str, int] = defaultdict(int)
    for entry in entries:
        transfers[entry.transfer_id] += entry.amount
        accounts[entry.account] += entry.amount
    assert set(transfers.values()) <= {0}
    balances = {row.buyer_id: row.balance for row in await world.rows(wallet_accounts)}
    assert all(balance >= 0 for balance in balances.values())
    assert balances == {buyer: accounts[f"buyer:{buyer}"] for buyer in balances}
    return balances


async def test_any_history_keeps_the_books_and_agrees_with_a_model(world: SettleWorld, seed: int) -> None:
    chance = random.Random(seed)
    await world.open_sale(1_000)
    settler, refunder = world.settler(), Refunder(world.database, {})
    model: Counter[str] = Counter()
    paid: dict[str, tuple[str, int]] = {}
    credited: dict[tuple[str, str], int] = {}
    for turn in range(30):
        buyer = chance.choice(BUYERS)
        match chance.choice(["credit", "credit again", "buy", "buy", "refund"]):
            case "credit":
                amount = chance.randrange(1, 4 * PRICE)
                await world.wallet.credit(buyer, amount, "EUR", f"k{turn}")
                model[buyer] += amount
                credited[buyer, f"k{turn}"] = amount
            case "credit again" if credited:
                (buyer, key), amount = chance.choice(list(credited.items()))
                await world.wallet.credit(buyer, amount, "EUR", key)
                with pytest.raises(KeyReused):
                    await world.wallet.credit(buyer, amount + 1, "EUR", key)
            case "buy":
                wanted = [(who := chance.choice(BUYERS), await world.buy(who, n)) for n in (1, 2)]
                await world.settle_all(settler)
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
        balances = await check_laws(world)
        assert balances == {who: model[who] for who in balances}


async def test_a_debit_that_reads_and_then_writes_overdraws_and_ours_does_not(world: SettleWorld) -> None:
    """The bug happens without the guard: two purchases read one balance, and both pay from it."""
    await world.open_sale(10)
    await world.wallet.credit("ada", PRICE, "EUR", "k")
    read_by_both = asyncio.Barrier(2)
    balance = select(wallet_accounts.c.balance)

    async def naive() -> bool:
        seen = await world.database.read(lambda c: c.execute(balance).scalar_one())
        await read_by_both.wait()

        def write(connection: Connection) -> None:
            connection.execute(update(wallet_accounts).values(balance=seen - PRICE))

        await world.database.write(write)
        return bool(seen >= PRICE)

    assert all(await asyncio.gather(naive(), naive()))
    await world.database.write(lambda c: c.execute(update(wallet_accounts).values(balance=PRICE)))
    for _ in range(4):
        await world.buy("ada")
    await asyncio.gather(*[world.settle_all(world.settler()) for _ in range(3)])
    assert len(await world.rows(orders)) == 1
    assert (await check_laws(world)) == {"ada": 0}


async def test_fifty_at_once_under_one_key_are_charged_once(world: SettleWorld) -> None:
    await world.open_sale(100)
    await world.wallet.credit("ada", 50 * PRICE, "EUR", "k")
    batcher, settler = Batcher(world.gate), world.settler()
    asked = [
        batcher.submit(SKU, Reserve(new_reservation_id(SKU, "ada"), "ada", 1, 1, key="one", settle=True))
        for _ in range(50)
    ]
    settling = asyncio.create_task(settler.run())
    verdicts = await asyncio.gather(*asked)
    settling.cancel()
    await world.drain()
    await world.settle_all(world.settler())
    assert len({v.reservation.reservation_id for v in verdicts if v.reservation is not None}) == 1
    assert len(await world.rows(payments)) == len(await world.rows(orders)) == 1
    assert (await world.one(pools)).sold == 1
    assert (await check_laws(world)) == {"ada": 49 * PRICE}
