"""Orders paid through the sandbox with every fault: never charged twice, and no charge without an order or refund."""

import asyncio

import pytest
from settle_harness import PRICE, SKU, Providers, SettleHarness
from settle_money import REMOTE, check_money, note_method
from settle_sandbox import Sandbox
from sqlalchemy import Connection, update

from holdfast.domain.sale.quote import Quote, quoted_reservation_id
from holdfast.domain.sale.sale import PaymentKind, payment_key_of, reacquired_id
from holdfast.domain.stock.command import Move, Reserve, Transition
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.ledger.money.payment_notes import Method
from holdfast.ledger.money.payment_notes import note_method as note_asked
from holdfast.ledger.sales.quotes import claim_quote, insert_quote
from holdfast.ledger.tables.money import payments, refunds, settlements
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import reservations
from holdfast.payments.port import Charge

pytest_plugins = ("settle_fixtures",)


@pytest.mark.parametrize(
    ("method", "status"),
    [
        ("pm_ok", "confirmed"),
        ("pm_decline", "failed"),
        ("pm_lost_reply", "confirmed"),
        ("pm_lost_reply_capture", "confirmed"),
        ("pm_error", "confirmed"),
        ("pm_error_capture", "confirmed"),
        ("pm_pending", "confirmed"),
    ],
)
async def test_every_fault_is_resolved(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers, method: str, status: str
) -> None:
    sandbox.faults(pending_ms=1)
    await harness.open_sale(3, REMOTE)
    bought = await harness.buy("ada")
    await note_method(harness, bought, method)
    await harness.settle_all(harness.settler(providers))
    assert (await harness.one(reservations)).status == status
    await check_money(harness, sandbox)


async def test_a_partial_grant_is_charged_partially(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    """Three were requested with a card, and one was left."""
    await harness.open_sale(1, REMOTE)
    bought = new_reservation_id(SKU, "ada")
    await harness.database.write(lambda c: note_asked(c, REMOTE, bought, "ada", 3, Method("pm_ok"), 1))
    await harness.buy_all([Reserve(bought, "ada", 3, 1, settle=True)])
    await harness.settle_all(harness.settler(providers))
    assert (await harness.one(payments)).amount == (await harness.one(orders)).amount == PRICE
    assert sandbox.books()[payment_key_of(bought)]["amount"] == PRICE
    await check_money(harness, sandbox)


async def test_a_card_is_charged_what_its_quote_says(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    """The note of the card was made with the sale's own price."""
    await harness.open_sale(1, REMOTE)
    bought = quoted_reservation_id(SKU, "ada")
    quote = Quote(
        quote_id=f"quo_{bought}", sale_id=REMOTE.sale_id, buyer_id="ada", quantity=1, amount=5_420, currency="USD",
        created_at=1, expires_at=1 << 50, reservation_id=bought, base_amount=PRICE, base_currency="EUR", rate="1.0842",
    )  # fmt: skip

    def work(connection: Connection) -> None:
        insert_quote(connection, quote)
        assert claim_quote(connection, quote, "k")

    await harness.database.write(work)
    await note_method(harness, bought, "pm_ok")
    await harness.buy_all([Reserve(bought, "ada", 1, 1, settle=True)])
    await harness.settle_all(harness.settler(providers))
    assert sandbox.books()[payment_key_of(bought)]["captured"] == 5_420
    charged, order = await harness.one(payments), await harness.one(orders)
    assert (charged.amount, charged.currency) == (order.amount, order.currency) == (5_420, "USD")


async def test_a_hundred_payments_survive_random_faults(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers, seed: int
) -> None:
    sandbox.faults(seed=seed, decline=0.1, lost_reply=0.1, error=0.1, pending=0.05, pending_ms=1, slow=0.05, slow_ms=50)
    await harness.open_sale(100, REMOTE)
    await harness.buy_all([Reserve(new_reservation_id(SKU, f"b{n}"), f"b{n}", 1, 1, settle=True) for n in range(100)])
    await asyncio.gather(*[harness.settle_all(harness.settler(providers, attempts_max=40)) for _ in range(2)])
    sandbox.faults()
    await check_money(harness, sandbox)
    assert len(await harness.rows(orders)) > 70


async def test_the_unit_stays_claimed_while_the_outcome_is_unknown(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    await harness.open_sale(1, REMOTE)
    bought = await harness.buy("ada")
    await note_method(harness, bought, "pm_lost_reply_capture")
    await harness.settler(providers).settle_all()
    assert (await harness.one(payments)).state == "claimed"
    assert (await harness.one(reservations)).status == "settling"
    assert (await harness.one(settlements)).state == "waiting"
    assert sandbox.books()[payment_key_of(bought)]["captures"] == 1
    await harness.settle_all(harness.settler(providers))
    assert (await harness.one(orders)).reservation_id == bought
    await check_money(harness, sandbox)


async def test_an_unreachable_provider_parks_the_settlement_and_a_retry_continues(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    await harness.open_sale(1, REMOTE)
    await harness.buy("ada")
    sandbox.faults(down_ms=3_600_000)
    await harness.settle_all(harness.settler(providers, attempts_max=3))
    row = await harness.one(settlements)
    assert (row.state, row.attempts) == ("parked", 3)
    assert "down" in row.reason
    assert row.history.count('"step"') == 3
    assert (await harness.one(reservations)).status == "settling"
    sandbox.faults()
    await harness.database.write(lambda c: c.execute(update(settlements).values(state="waiting", attempts=0)))
    await harness.settle_all(harness.settler(providers))
    await check_money(harness, sandbox)


async def test_a_worker_that_slept_past_its_lease_writes_nothing(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    sandbox.faults(slow_ms=700)
    await harness.open_sale(1, REMOTE)
    bought = await harness.buy("ada")
    await note_method(harness, bought, "pm_slow")
    sleeper = harness.settler(providers, lease_ms=100)
    await sleeper.pass_once()
    # It waits for its authorisation; meanwhile the lease runs out, and another settles the same reservation.
    await asyncio.sleep(0.15)
    await harness.settle_all(harness.settler(providers))
    before = await harness.rows(settlements), await harness.rows(payments), await harness.rows(orders)
    await sleeper.settle_all()
    assert (await harness.rows(settlements), await harness.rows(payments), await harness.rows(orders)) == before
    await check_money(harness, sandbox)


async def settled_late(harness: SettleHarness, providers: Providers, units: int = 2) -> str:
    """Captured, the reply lost, and the reservation ended before the ledger knew."""
    await harness.open_sale(units, REMOTE)
    bought = await harness.buy("ada")
    await note_method(harness, bought, "pm_lost_reply_capture")
    await harness.settler(providers).settle_all()
    await harness.apply(SKU, Move(Transition.FAIL, bought))
    await harness.drain()
    return bought


async def test_late_money_gets_replacement_units(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    late = await settled_late(harness, providers)
    await harness.settle_all(harness.settler(providers))
    await harness.settle_all(harness.settler(providers))
    [order] = await harness.rows(orders)
    assert order.reservation_id == reacquired_id(late)
    assert (await harness.one(payments)).reservation_id == order.reservation_id
    await check_money(harness, sandbox)


async def test_late_money_is_refunded_if_nothing_is_left(harness: SettleHarness, providers: Providers) -> None:
    late = await settled_late(harness, providers, units=1)
    await harness.apply(SKU, Reserve(new_reservation_id(SKU, "bob"), "bob", 1, 1))
    await harness.settle_all(harness.settler(providers))
    owed = await harness.one(refunds)
    assert (owed.payment_key, owed.amount, owed.cause) == (payment_key_of(late), PRICE, "paid_too_late")
    assert await harness.rows(orders) == []


async def test_money_for_an_externally_sold_reservation_is_refunded(
    harness: SettleHarness, providers: Providers
) -> None:
    await harness.open_sale(2, REMOTE)
    bought = await harness.buy("ada")
    await note_method(harness, bought, "pm_lost_reply_capture")
    await harness.settler(providers).settle_all()
    await harness.apply(SKU, Move(Transition.CONFIRM, bought))
    await harness.drain()
    await harness.settle_all(harness.settler(providers))
    assert (await harness.one(orders)).payment == "external"
    assert (await harness.one(refunds)).cause == "sold_elsewhere"


async def test_the_authorisation_of_an_ended_reservation_is_voided(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    await harness.open_sale(1, REMOTE)
    bought = await harness.buy("ada")
    await note_method(harness, bought, "pm_lost_reply")
    await harness.settler(providers).settle_all()
    await harness.apply(SKU, Move(Transition.FAIL, bought))
    await harness.drain()
    await harness.settle_all(harness.settler(providers))
    assert sandbox.books()[payment_key_of(bought)]["state"] == "voided"
    await check_money(harness, sandbox)


async def test_a_payment_over_another_amount_is_parked(harness: SettleHarness, providers: Providers) -> None:
    await harness.open_sale(1, REMOTE)
    bought = await harness.buy("ada")
    await note_method(harness, bought, "pm_ok")
    await harness.database.write(lambda c: c.execute(update(payments).values(state="attempted")))
    other = Charge(payment_key_of(bought), PRICE + 1, "EUR", "ada", bought, REMOTE.sale_id)
    await providers[PaymentKind.SANDBOX].authorise(other)
    await harness.settler(providers).settle_all()
    row = await harness.one(settlements)
    assert row.state == "parked"
    assert str(PRICE + 1) in row.reason
