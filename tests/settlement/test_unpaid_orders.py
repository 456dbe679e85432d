"""Orders without payments: mended if the money is there after all, parked for a person if not."""

import pytest
from settle_money import REMOTE, check_money
from settle_sandbox import Sandbox
from settle_world import PRICE, Providers, SettleWorld
from sqlalchemy import delete, update

from holdfast.domain.sale import order_id_of, payment_key_of
from holdfast.ledger.refunds import Wanted
from holdfast.ledger.sale_tables import orders, payments, settlements, wallet_entries
from holdfast.settlement.parked import NotParked, Parked
from holdfast.settlement.payment_report import PaymentReport
from holdfast.settlement.refund import Refunder

pytest_plugins = ("settle_fixtures",)


async def paid(world: SettleWorld, providers: Providers) -> str:
    await world.open_sale(3, REMOTE)
    bought = await world.buy("ada")
    await world.settle_all(world.settler(providers))
    return bought


def said(report: PaymentReport) -> list[tuple[str, bool]]:
    return [(found.finding, found.is_mended) for found in report.findings]


async def test_a_payment_that_the_provider_has_is_written_again(
    world: SettleWorld, sandbox: Sandbox, providers: Providers
) -> None:
    bought = await paid(world, providers)
    before = dict((await world.one(payments))._mapping)
    await world.database.write(lambda c: c.execute(delete(payments)))
    assert said(await world.audit(providers=providers).look()) == [("order_without_payment", True)]
    after = dict((await world.one(payments))._mapping)
    same = ("payment_key", "reservation_id", "provider", "amount", "currency", "state", "reference")
    assert [after[name] for name in same] == [before[name] for name in same]
    assert after["payment_key"] == payment_key_of(bought)
    assert (await world.audit(providers=providers).look(thorough=True)).is_ok
    await check_money(world, sandbox)


@pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)
async def test_a_payment_that_the_wallet_made_is_written_again(world: SettleWorld) -> None:
    await world.open_sale(3)
    await world.wallet.credit("ada", 5_000, "EUR", "k")
    await world.buy("ada")
    await world.settle_all(world.settler())
    await world.database.write(lambda c: c.execute(update(payments).values(state="declined")))
    assert said(await world.audit().look()) == [("order_without_payment", True)]
    assert (await world.one(payments)).state == "captured"


@pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)
async def test_an_order_that_nobody_paid_is_parked_with_the_reason_and_can_be_let_stand(
    world: SettleWorld, providers: Providers
) -> None:
    """The provider has another amount than the order."""
    bought = await paid(world, providers)
    await world.database.write(lambda c: c.execute(delete(payments)))
    await world.database.write(lambda c: c.execute(update(orders).values(amount=PRICE + 1)))
    audit, parked = world.audit(providers=providers), Parked(world.database, world.settler(providers), providers)
    for _ in range(2):
        report = await audit.look(thorough=True)
        assert (said(report), report.parked["settlement"]) == ([("order_without_payment", False)], 1)
    [item], _ = await parked.items()
    assert item.parked_id == f"settlement:{bought}"
    assert item.reason is not None
    assert f"the provider has {PRICE}, captured, under {payment_key_of(bought)}" in item.reason
    await parked.retry(item.parked_id)
    await world.settle_all(world.settler(providers))
    assert (await audit.look(thorough=True)).parked["settlement"] == 1
    await parked.drop(item.parked_id)
    assert ((await world.one(orders)).payment, (await world.one(settlements)).state) == ("external", "dropped")
    assert (await audit.look(thorough=True)).is_ok
    with pytest.raises(NotParked):
        await parked.drop(item.parked_id)
    await world.database.write(lambda c: c.execute(update(orders).values(amount=PRICE)))
    assert (await Refunder(world.database, {}).request(Wanted(order_id_of(bought), "r"))).state == "done"


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_an_order_whose_wallet_never_paid_is_parked(world: SettleWorld) -> None:
    await world.open_sale(3)
    await world.wallet.credit("ada", 5_000, "EUR", "k")
    await world.buy("ada")
    await world.settle_all(world.settler())
    lost = [dict(row._mapping) for row in await world.rows(wallet_entries)]
    payment = dict((await world.one(payments))._mapping)
    await world.database.write(lambda c: (c.execute(delete(payments)), c.execute(delete(wallet_entries))))
    assert said(await world.audit().look()) == [("order_without_payment", False)]
    assert "the wallet never paid it" in (await world.one(settlements)).reason
    # The auditor looks at what every test leaves.
    await world.database.write(lambda c: c.execute(wallet_entries.insert(), lost))
    await world.database.write(lambda c: c.execute(payments.insert(), [payment]))


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_who_cannot_be_asked_is_asked_at_the_next_look(
    world: SettleWorld, sandbox: Sandbox, providers: Providers
) -> None:
    await paid(world, providers)
    await world.database.write(lambda c: c.execute(delete(payments)))
    assert said(await world.audit().look()) == [("order_without_payment", False)]
    sandbox.faults(down_ms=3_600_000)
    report = await world.audit(providers=providers).look()
    assert (said(report), report.parked["settlement"]) == ([("order_without_payment", False)], 0)
    sandbox.faults()
    assert said(await world.audit(providers=providers).look()) == [("order_without_payment", True)]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_a_provider_with_payments_that_is_not_configured_is_named(
    world: SettleWorld, providers: Providers
) -> None:
    await paid(world, providers)
    assert said(await world.audit().look(thorough=True)) == [("provider_not_configured", False)]
    assert (await world.audit().look()).is_ok
