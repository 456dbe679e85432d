"""Parked items, and payments without an order: found, and repaired where that is safe."""

import pytest
from settle_harness import SKU, Providers, SettleHarness
from settle_money import REMOTE, check_money, note_method
from settle_sandbox import Sandbox
from sqlalchemy import delete, insert, update

from holdfast.domain.sale.sale import order_id_of, payment_key_of
from holdfast.domain.stock.command import Move, Transition
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.ledger.money.refunds import Wanted
from holdfast.ledger.tables.money import payments, refunds, settlements
from holdfast.ledger.tables.sales import orders, sales
from holdfast.ledger.tables.stock import events, pools, reservations
from holdfast.payments.port import Charge
from holdfast.settlement.parked import DropRefused, NotParked, Parked
from holdfast.settlement.refund import Refunder

# As after a defect.
WRITES_BY_HAND = True

pytest_plugins = ("settle_fixtures",)


async def parked_with(harness: SettleHarness, sandbox: Sandbox, providers: Providers, method: str) -> str:
    """A reservation whose payment was tried once, with this fault, and then parked."""
    await harness.open_sale(3, REMOTE)
    bought = await harness.buy("ada")
    await note_method(harness, bought, method)
    await harness.settler(providers, attempts_max=1).settle_all()
    assert (await harness.one(settlements)).state == "parked"
    sandbox.faults()
    return bought


def parked_of(harness: SettleHarness, providers: Providers) -> Parked:
    return Parked(harness.database, harness.settler(providers), providers)


async def test_parked_items_have_a_history_and_can_be_retried(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    bought = await parked_with(harness, sandbox, providers, "pm_error")
    parked = parked_of(harness, providers)
    [item], _ = await parked.items()
    assert (item.parked_id, item.kind, item.attempts) == (f"settlement:{bought}", "settlement", 1)
    assert [tried["step"] for tried in item.history] == ["authorise"]
    await parked.retry(item.parked_id)
    await harness.settle_all(harness.settler(providers))
    assert await parked.items() == ([], False)
    with pytest.raises(NotParked):
        await parked.retry(item.parked_id)
    await check_money(harness, sandbox)


@pytest.mark.parametrize("method", ["pm_error", "pm_lost_reply"])
async def test_a_drop_voids_the_payment_before_units_return(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers, method: str
) -> None:
    bought = await parked_with(harness, sandbox, providers, method)
    await parked_of(harness, providers).drop(f"settlement:{bought}", "ada")
    await harness.drain()
    assert (await harness.one(reservations)).status == "failed"
    assert (await harness.one(pools)).held == 0
    await harness.settle_all(harness.settler(providers))
    assert (await harness.one(settlements)).state == "done"
    await check_money(harness, sandbox)


@pytest.mark.parametrize("method", ["pm_error", "pm_lost_reply", "pm_lost_reply_capture"])
async def test_a_settlement_whose_sale_is_gone_can_be_dropped_and_its_money_goes_back(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers, method: str
) -> None:
    """As after a restored backup that is older than the sale."""
    bought = await parked_with(harness, sandbox, providers, method)
    await harness.database.write(lambda c: c.execute(delete(sales)))
    parked = parked_of(harness, providers)
    await parked.retry(f"settlement:{bought}")
    await harness.settler(providers).settle_all()
    assert (await harness.one(settlements)).state == "parked", "a retry cannot help"
    await parked.drop(f"settlement:{bought}", "ada")
    await harness.settle_all(harness.settler(providers))
    assert (await harness.one(reservations)).status == "failed"
    assert (await harness.one(pools)).held == 0
    assert "dropped by ada" in (await harness.one(settlements)).history
    assert await parked.items() == ([], False)
    await Refunder(harness.database, providers).pass_once()
    entry = sandbox.books().get(payment_key_of(bought), {"captures": 0, "refunded": 0, "amount": 0})
    assert entry["refunded"] == entry["captures"] * entry["amount"]
    await check_money(harness, sandbox)


async def test_a_drop_is_refused_if_money_was_taken(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    bought = await parked_with(harness, sandbox, providers, "pm_lost_reply_capture")
    parked = parked_of(harness, providers)
    with pytest.raises(DropRefused, match="captured"):
        await parked.drop(f"settlement:{bought}", "ada")
    sandbox.faults(down_ms=3_600_000)
    with pytest.raises(DropRefused, match="It is unknown"):
        await parked.drop(f"settlement:{bought}", "ada")
    sandbox.faults()
    assert (await harness.one(settlements)).state == "parked"
    await parked.retry(f"settlement:{bought}")
    await harness.settle_all(harness.settler(providers))
    await check_money(harness, sandbox)


async def test_a_drop_is_refused_if_the_money_came_from_another_reservation(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    """As after a late success: the payment has the key of the reservation that it was taken for first."""
    bought = await parked_with(harness, sandbox, providers, "pm_error")
    moved = {"payment_key": payment_key_of(new_reservation_id(SKU, "ada")), "state": "captured"}
    await harness.database.write(lambda c: c.execute(update(payments).values(**moved)))
    with pytest.raises(DropRefused, match="taken"):
        await parked_of(harness, providers).drop(f"settlement:{bought}", "ada")
    await parked_of(harness, providers).retry(f"settlement:{bought}")
    await harness.settle_all(harness.settler(providers))
    assert (await harness.one(orders)).reservation_id == bought


async def test_a_refund_that_the_provider_paid_cannot_be_dropped(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    await harness.open_sale(1, REMOTE)
    bought = await harness.buy("ada")
    await harness.settle_all(harness.settler(providers))
    refunder, parked = Refunder(harness.database, providers, attempts_max=1), parked_of(harness, providers)
    sandbox.faults(lost_reply=1.0)
    asked = await refunder.request(Wanted(order_id_of(bought), "r", 400))
    assert asked.state == "parked"
    sandbox.faults(down_ms=3_600_000)
    with pytest.raises(DropRefused, match="It is unknown"):
        await parked.drop(f"refund:{asked.refund_id}", "ada")
    sandbox.faults()
    with pytest.raises(DropRefused, match="400 were refunded"):
        await parked.drop(f"refund:{asked.refund_id}", "ada")
    await parked.retry(f"refund:{asked.refund_id}")
    await refunder.pass_once()
    assert sandbox.books()[payment_key_of(bought)]["refunded"] == (await harness.one(orders)).refunded_amount == 400


async def test_an_unpaid_refund_can_be_dropped_while_its_order_stands(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    await harness.open_sale(1, REMOTE)
    bought = await harness.buy("ada")
    await harness.settle_all(harness.settler(providers))
    refunder, parked = Refunder(harness.database, providers, attempts_max=1), parked_of(harness, providers)
    sandbox.faults(error=1.0)
    asked = await refunder.request(Wanted(order_id_of(bought), "r", 400))
    sandbox.faults()
    await parked.drop(f"refund:{asked.refund_id}", "ada")
    for gone in (f"refund:{asked.refund_id}", "refund:rfd_nobody"):
        with pytest.raises(NotParked):
            await parked.drop(gone, "ada")
    assert (await refunder.request(Wanted(order_id_of(bought), "again"))).state == "done"
    assert sandbox.books()[payment_key_of(bought)]["refunded"] == (await harness.one(orders)).refunded_amount


async def test_a_charge_without_an_order_becomes_one(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    """As if a defect or a manual change had lost the order."""
    await harness.open_sale(3, REMOTE)
    bought = await harness.buy("ada")
    await note_method(harness, bought, "pm_lost_reply_capture")
    await harness.settler(providers).settle_all()
    await harness.database.write(lambda c: c.execute(update(settlements).values(state="done")))
    await harness.database.write(lambda c: c.execute(update(payments).values(state="captured")))
    settler = harness.settler(providers)
    audit = harness.audit(settler, providers)
    report = await audit.look()
    assert [(f.finding, f.subject, f.is_repaired) for f in report.findings] == [
        ("payment_without_order", payment_key_of(bought), True)
    ]
    await harness.settle_all(settler)
    await check_money(harness, sandbox)
    assert (await audit.look(thorough=True)).is_ok


async def test_an_authorisation_left_open_is_voided(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    await harness.open_sale(3, REMOTE)
    bought = await harness.buy("ada")
    await note_method(harness, bought, "pm_lost_reply")
    await harness.settler(providers).settle_all()
    await harness.apply(SKU, Move(Transition.FAIL, bought))
    await harness.drain()
    await harness.database.write(lambda c: c.execute(update(settlements).values(state="done")))
    settler = harness.settler(providers)
    [finding] = (await harness.audit(settler, providers).look()).findings
    assert (finding.finding, finding.is_repaired) == ("payment_left_open", True)
    await harness.settle_all(settler)
    assert sandbox.books()[payment_key_of(bought)]["state"] == "voided"


async def test_a_late_success_is_found_and_gets_replacement_units(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    """Declined, so the units returned; then the provider says that it has the money after all."""
    await harness.open_sale(3, REMOTE)
    bought = await harness.buy("ada")
    key = payment_key_of(bought)
    values = {
        "payment_key": key, "reservation_id": bought, "sale_id": REMOTE.sale_id, "buyer_id": "ada",
        "provider": "sandbox", "amount": 1_000, "currency": "EUR", "state": "declined", "created_at": 0,
        "updated_at": 0,
    }  # fmt: skip
    await harness.database.write(lambda c: c.execute(insert(payments), [values]))
    settler = harness.settler(providers)
    await harness.settle_all(settler)
    assert (await harness.one(reservations)).status == "failed"
    provider = providers["sandbox"]
    await provider.capture(await provider.authorise(Charge(key, 1_000, "EUR", "ada", bought, REMOTE.sale_id)))
    audit = harness.audit(settler, providers)
    for _ in range(2):
        assert await audit.hint(key)
    assert not await audit.hint("pay_nobody")
    await harness.settle_all(settler)
    await harness.settle_all(settler)
    [order] = await harness.rows(orders)
    assert order.buyer_id == "ada"
    assert await harness.rows(refunds) == []
    assert [e.type for e in await harness.rows(events)].count("order.confirmed") == 1
    await check_money(harness, sandbox)
