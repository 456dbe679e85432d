"""Lists of charges are read regularly: what the ledger does not know does not stay unknown."""

import pytest
from settle_harness import PRICE, SKU, Providers, SettleHarness
from settle_money import REMOTE, note_method

from holdfast.domain.sale.sale import payment_key_of
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.ledger.tables.money import payments, settlements
from holdfast.ledger.tables.sales import orders
from holdfast.payments.port import Charge
from holdfast.settlement import charge_lists

pytest_plugins = ("settle_fixtures",)
pytestmark = pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)


async def charged_elsewhere(
    providers: Providers, sale_id: str = REMOTE.sale_id, currency: str = "EUR", mark: str | None = None
) -> str:
    """A charge with our metadata that this ledger has never heard of."""
    bought = new_reservation_id(SKU, "ada")
    charge = Charge(payment_key_of(bought), PRICE, currency, "ada", bought, sale_id, ledger_mark=mark)
    await providers["sandbox"].authorise(charge)
    return bought


@pytest.fixture(autouse=True)
def _only_new_charges(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandbox also has the charges of earlier tests."""
    monkeypatch.setattr(charge_lists, "FIRST_MS", 0)
    monkeypatch.setattr(charge_lists, "OVERLAP_MS", 0)


@pytest.mark.parametrize(("units", "sold"), [(1, 1), (0, 0)])
async def test_an_unknown_charge_becomes_an_order_or_is_returned(
    harness: SettleHarness, providers: Providers, units: int, sold: int
) -> None:
    await harness.open_sale(units, REMOTE)
    settler = harness.settler(providers)
    lists = harness.charge_lists(settler, providers)
    lists._read_until = await harness.database.read(harness.database.now_ms)
    bought = await charged_elsewhere(providers)
    found = await lists.read()
    assert [(one.finding, one.subject, one.is_repaired) for one in found] == [
        ("unknown_charge", payment_key_of(bought), True)
    ]
    assert await lists.read() == []
    await harness.settle_all(settler)
    assert [row.reservation_id for row in await harness.rows(orders)] == [bought] * sold
    assert (await harness.one(payments)).state == ("captured" if sold else "voided")


async def test_a_charge_for_fewer_units_than_its_buyer_asked_for_is_booked_as_charged(
    harness: SettleHarness, providers: Providers
) -> None:
    """The ledger went back to when the method was noted, with the amount of what was asked for."""
    await harness.open_sale(2, REMOTE)
    settler = harness.settler(providers)
    lists = harness.charge_lists(settler, providers)
    lists._read_until = await harness.database.read(harness.database.now_ms)
    bought = await charged_elsewhere(providers)
    await note_method(harness, bought, "card_ok", amount=2 * PRICE)
    await lists.read()
    await harness.settle_all(settler)
    order, payment = await harness.one(orders), await harness.one(payments)
    assert (order.quantity, order.amount, payment.amount) == (1, PRICE, PRICE)


async def test_a_charge_without_a_sale_needs_a_person(harness: SettleHarness, providers: Providers) -> None:
    await harness.open_sale(1, REMOTE)
    lists = harness.charge_lists(harness.settler(providers), providers)
    lists._read_until = await harness.database.read(harness.database.now_ms)
    await charged_elsewhere(providers, "no-such-sale")
    [found] = await lists.read()
    assert (found.is_repaired, (await harness.one(settlements)).state) == (False, "parked")


async def test_a_charge_in_another_currency_needs_a_person(harness: SettleHarness, providers: Providers) -> None:
    await harness.open_sale(1, REMOTE)
    lists = harness.charge_lists(harness.settler(providers), providers)
    lists._read_until = await harness.database.read(harness.database.now_ms)
    await charged_elsewhere(providers, currency="USD")
    [found] = await lists.read()
    assert (found.is_repaired, (await harness.one(settlements)).state) == (False, "parked")


async def test_a_charge_of_another_ledger_is_left_alone(harness: SettleHarness, providers: Providers) -> None:
    """Its sale has the same ID as one of ours."""
    await harness.open_sale(1, REMOTE)
    lists = harness.charge_lists(harness.settler(providers), providers)
    lists._read_until = await harness.database.read(harness.database.now_ms)
    await charged_elsewhere(providers, mark="another-ledger.1.00")
    assert await lists.read() == []
    assert await harness.rows(settlements) == []
