"""Orders without payments: repaired if the money is there after all, parked if not."""

import pytest
from settle_harness import PRICE, Providers, SettleHarness
from settle_money import REMOTE, check_money
from settle_sandbox import Sandbox
from sqlalchemy import delete, update

from holdfast.domain.sale.sale import order_id_of, payment_key_of
from holdfast.ledger.money.refunds import Wanted
from holdfast.ledger.tables.money import payments, settlements, wallet_entries
from holdfast.ledger.tables.sales import orders
from holdfast.settlement.parked import NotParked, Parked
from holdfast.settlement.payment_report import PaymentReport
from holdfast.settlement.refund import Refunder

# As after a defect.
WRITES_BY_HAND = True

pytest_plugins = ("settle_fixtures",)


async def paid(harness: SettleHarness, providers: Providers) -> str:
    await harness.open_sale(3, REMOTE)
    bought = await harness.buy("ada")
    await harness.settle_all(harness.settler(providers))
    return bought


def said(report: PaymentReport) -> list[tuple[str, bool]]:
    return [(found.finding, found.is_repaired) for found in report.findings]


async def test_a_payment_that_the_provider_has_is_restored(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    bought = await paid(harness, providers)
    before = dict((await harness.one(payments))._mapping)
    await harness.database.write(lambda c: c.execute(delete(payments)))
    assert said(await harness.audit(providers=providers).look()) == [("order_without_payment", True)]
    after = dict((await harness.one(payments))._mapping)
    same = ("payment_key", "reservation_id", "provider", "amount", "currency", "state", "reference")
    assert [after[name] for name in same] == [before[name] for name in same]
    assert after["payment_key"] == payment_key_of(bought)
    assert (await harness.audit(providers=providers).look(thorough=True)).is_ok
    await check_money(harness, sandbox)


@pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)
async def test_a_payment_that_the_wallet_made_is_restored(harness: SettleHarness) -> None:
    await harness.open_sale(3)
    await harness.wallet.credit("ada", 5_000, "EUR", "k")
    await harness.buy("ada")
    await harness.settle_all(harness.settler())
    await harness.database.write(lambda c: c.execute(update(payments).values(state="declined")))
    assert said(await harness.audit().look()) == [("order_without_payment", True)]
    assert (await harness.one(payments)).state == "captured"


@pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)
async def test_an_unpaid_order_is_parked_and_a_drop_lets_it_stand(harness: SettleHarness, providers: Providers) -> None:
    """The provider has another amount than the order."""
    bought = await paid(harness, providers)
    await harness.database.write(lambda c: c.execute(delete(payments)))
    await harness.database.write(lambda c: c.execute(update(orders).values(amount=PRICE + 1)))
    audit, parked = harness.audit(providers=providers), Parked(harness.database, harness.settler(providers), providers)
    for _ in range(2):
        report = await audit.look(thorough=True)
        assert (said(report), report.parked["settlement"]) == ([("order_without_payment", False)], 1)
    [item], _ = await parked.items()
    assert item.parked_id == f"settlement:{bought}"
    assert item.reason is not None
    assert f"the provider has {PRICE}, captured, under {payment_key_of(bought)}" in item.reason
    await parked.retry(item.parked_id)
    await harness.settle_all(harness.settler(providers))
    assert (await audit.look(thorough=True)).parked["settlement"] == 1
    await parked.drop(item.parked_id, "ada")
    assert ((await harness.one(orders)).payment, (await harness.one(settlements)).state) == ("external", "dropped")
    assert (await audit.look(thorough=True)).is_ok
    with pytest.raises(NotParked):
        await parked.drop(item.parked_id, "ada")
    await harness.database.write(lambda c: c.execute(update(orders).values(amount=PRICE)))
    assert (await Refunder(harness.database, {}).request(Wanted(order_id_of(bought), "r"))).state == "parked"


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_an_order_whose_wallet_never_paid_is_parked(harness: SettleHarness) -> None:
    await harness.open_sale(3)
    await harness.wallet.credit("ada", 5_000, "EUR", "k")
    await harness.buy("ada")
    await harness.settle_all(harness.settler())
    lost = [dict(row._mapping) for row in await harness.rows(wallet_entries)]
    payment = dict((await harness.one(payments))._mapping)
    await harness.database.write(lambda c: (c.execute(delete(payments)), c.execute(delete(wallet_entries))))
    assert said(await harness.audit().look()) == [("order_without_payment", False)]
    assert "the wallet never paid it" in (await harness.one(settlements)).reason
    # The auditor looks at what every test leaves.
    await harness.database.write(lambda c: c.execute(wallet_entries.insert(), lost))
    await harness.database.write(lambda c: c.execute(payments.insert(), [payment]))


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_a_provider_that_does_not_answer_is_asked_in_the_next_pass(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    await paid(harness, providers)
    await harness.database.write(lambda c: c.execute(delete(payments)))
    assert said(await harness.audit().look()) == [("order_without_payment", False)]
    sandbox.faults(down_ms=3_600_000)
    report = await harness.audit(providers=providers).look()
    assert (said(report), report.parked["settlement"]) == ([("order_without_payment", False)], 0)
    sandbox.faults()
    assert said(await harness.audit(providers=providers).look()) == [("order_without_payment", True)]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_a_provider_with_payments_that_is_not_configured_is_named(
    harness: SettleHarness, providers: Providers
) -> None:
    await paid(harness, providers)
    assert said(await harness.audit().look(thorough=True)) == [("provider_not_configured", False)]
    assert (await harness.audit().look()).is_ok
