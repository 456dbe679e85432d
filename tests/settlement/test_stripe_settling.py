"""Orders paid through Stripe, against a local server with Stripe's API."""

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from settle_harness import PRICE, SKU, SettleHarness, other_sale
from stripe import WebhookSignature

from holdfast.domain.sale.sale import PaymentKind, order_id_of, payment_key_of, reacquired_id
from holdfast.domain.stock.command import Move, Reserve, Transition
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.ledger.money.payment_notes import Method, note_method
from holdfast.ledger.money.refunds import Wanted
from holdfast.ledger.tables.money import payments, refunds, settlements
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import pools, reservations
from holdfast.payments.stripe.provider import StripeProvider
from holdfast.payments.stripe.webhook import read_webhook
from holdfast.settlement.refund import Refunder
from stripe_server import API_KEY, StripeServer, running_stripe

pytest_plugins = ("settle_fixtures",)
pytestmark = pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)

PAID_BY_CARD = other_sale(SKU, payment=PaymentKind.STRIPE)
SECRET = "whsec_" + "c2VjcmV0" * 4


@pytest.fixture(scope="module")
async def _stripe() -> AsyncIterator[StripeServer]:
    async with running_stripe() as server:
        yield server


@pytest.fixture
def stripe(_stripe: StripeServer) -> StripeServer:
    """It also has the payments of earlier tests, under other keys."""
    _stripe.lose_next.clear()
    return _stripe


@pytest.fixture
async def provider(stripe: StripeServer) -> AsyncIterator[StripeProvider]:
    made = StripeProvider(API_KEY, 5.0, stripe.url)
    yield made
    await made.close()


@pytest.fixture
async def restarted(stripe: StripeServer) -> AsyncIterator[StripeProvider]:
    """As in another process: without memory."""
    made = StripeProvider(API_KEY, 5.0, stripe.url)
    yield made
    await made.close()


async def buy(harness: SettleHarness, card: str, units: int = 2) -> str:
    await harness.open_sale(units, PAID_BY_CARD)
    bought = new_reservation_id(SKU, "ada")
    await harness.database.write(lambda c: note_method(c, PAID_BY_CARD, bought, "ada", 1, Method(card, "cus_1"), 1))
    await harness.buy_all([Reserve(bought, "ada", 1, 1, settle=True)])
    return bought


async def check_books(harness: SettleHarness, stripe: StripeServer) -> None:
    """By Stripe's own records: each charge captured at most once, and each an order or a refund."""
    ordered, owed = (
        {o.reservation_id for o in await harness.rows(orders)},
        {r.payment_key for r in await harness.rows(refunds)},
    )
    for payment in await harness.rows(payments):
        intents = stripe.by_key(payment.payment_key)
        assert len(intents) <= 1
        taken = sum(stripe.captures[intent["id"]] for intent in intents)
        assert taken == int(payment.reservation_id in ordered or payment.payment_key in owed)
        assert not any(intent["status"] == "requires_capture" for intent in intents)
    pool = await harness.one(pools)
    assert (pool.held, pool.sold) == (0, len(ordered))


def notice(key: str, kind: str = "payment_intent.succeeded") -> str:
    """As Stripe signs and sends it. Returns the key that is read from it."""
    event: dict[str, Any] = {"id": "evt_1", "type": kind, "data": {"object": {"metadata": {"holdfast_key": key}}}}
    body, now = json.dumps(event), int(time.time())
    signature = WebhookSignature._compute_signature(f"{now}.{body}", SECRET)
    read = read_webhook(SECRET, body.encode(), f"t={now},v1={signature}")
    assert read.key == key
    return key


@pytest.mark.parametrize(
    ("method", "status", "reason"),
    [
        ("pm_card_visa", "confirmed", None),
        ("pm_card_chargeDeclinedInsufficientFunds", "failed", "insufficient_funds"),
        ("pm_needs_action", "failed", "authentication_required"),
        ("pm_lost_reply", "confirmed", None),
    ],
)
async def test_every_card_is_resolved(
    harness: SettleHarness, stripe: StripeServer, provider: StripeProvider, method: str, status: str, reason: str | None
) -> None:
    await buy(harness, method)
    await harness.settle_all(harness.settler({"stripe": provider}))
    assert ((await harness.one(reservations)).status, (await harness.one(payments)).reason) == (status, reason)
    await check_books(harness, stripe)


async def test_a_capture_whose_reply_was_lost_is_found_after_a_restart_though_search_lags(
    harness: SettleHarness, stripe: StripeServer, provider: StripeProvider, restarted: StripeProvider
) -> None:
    bought = await buy(harness, "pm_card_visa")
    stripe.lose_next.add("capture")
    await harness.settler({"stripe": provider}).settle_all()
    assert (await harness.one(payments)).state == "claimed"
    assert (await harness.one(reservations)).status == "settling"
    await harness.settle_all(harness.settler({"stripe": restarted}))
    assert (await harness.one(orders)).reservation_id == bought
    await check_books(harness, stripe)


async def test_a_charge_whose_reply_was_lost_is_repeated_under_its_key_after_a_restart(
    harness: SettleHarness, stripe: StripeServer, provider: StripeProvider, restarted: StripeProvider
) -> None:
    bought = await buy(harness, "pm_lost_reply")
    await harness.settler({"stripe": provider}).settle_all()
    assert (await harness.one(payments)).state == "attempted"
    await harness.settle_all(harness.settler({"stripe": restarted}))
    assert (await harness.one(orders)).reservation_id == bought
    assert len(stripe.by_key(payment_key_of(bought))) == 1
    await check_books(harness, stripe)


async def test_an_order_is_refunded_once_in_parts(
    harness: SettleHarness, stripe: StripeServer, provider: StripeProvider
) -> None:
    bought = await buy(harness, "pm_card_visa")
    await harness.settle_all(harness.settler({"stripe": provider}))
    refunder, order_id = Refunder(harness.database, {"stripe": provider}), order_id_of(bought)
    for key, amount in (("a", 400), ("a", 400), ("rest", None)):
        assert (await refunder.request(Wanted(order_id, key, amount))).state == "done"
    [intent] = stripe.by_key(payment_key_of(bought))
    assert [r["amount"] for r in stripe.refunds if r["payment_intent"] == intent["id"]] == [400, PRICE - 400]
    assert ((await harness.one(orders)).status, intent["latest_charge"]["amount_refunded"]) == ("refunded", PRICE)


async def test_a_webhook_that_comes_first_or_twice_changes_nothing(
    harness: SettleHarness, stripe: StripeServer, provider: StripeProvider
) -> None:
    bought = await buy(harness, "pm_card_visa")
    settler = harness.settler({"stripe": provider})
    audit, key = harness.audit(settler, {"stripe": provider}), payment_key_of(bought)
    assert await audit.hint(notice(key, "payment_intent.amount_capturable_updated"))
    await harness.settle_all(settler)
    for _ in range(2):
        assert await audit.hint(notice(key))
    await harness.settle_all(settler)
    assert not await audit.hint(notice("pay_of_somebody_else"))
    assert len(await harness.rows(orders)) == 1
    await check_books(harness, stripe)


async def late(harness: SettleHarness, stripe: StripeServer, provider: StripeProvider, units: int) -> str:
    """Captured, the reply lost, and the reservation ended before the ledger knew."""
    bought = await buy(harness, "pm_card_visa", units)
    stripe.lose_next.add("capture")
    await harness.settler({"stripe": provider}).settle_all()
    await harness.apply(SKU, Move(Transition.FAIL, bought))
    return bought


async def test_late_money_gets_replacement_units(
    harness: SettleHarness, stripe: StripeServer, provider: StripeProvider
) -> None:
    bought = await late(harness, stripe, provider, units=1)
    for _ in range(2):
        await harness.settle_all(harness.settler({"stripe": provider}))
    assert (await harness.one(orders)).reservation_id == reacquired_id(bought)
    await check_books(harness, stripe)


async def test_late_money_is_refunded_if_nothing_is_left(
    harness: SettleHarness, stripe: StripeServer, provider: StripeProvider
) -> None:
    bought = await late(harness, stripe, provider, units=1)
    taken = new_reservation_id(SKU, "bob")
    await harness.apply(SKU, Reserve(taken, "bob", 1, 1))
    await harness.settle_all(harness.settler({"stripe": provider}))
    await Refunder(harness.database, {"stripe": provider}).pass_once()
    await harness.apply(SKU, Move(Transition.CANCEL, taken))
    [intent] = stripe.by_key(payment_key_of(bought))
    assert ((await harness.one(refunds)).state, intent["latest_charge"]["amount_refunded"]) == ("done", PRICE)
    await check_books(harness, stripe)


async def test_a_success_known_only_by_webhook_gets_replacement_units(
    harness: SettleHarness, stripe: StripeServer, provider: StripeProvider, restarted: StripeProvider
) -> None:
    """The reply was lost, the worker died, the hold ended, and search did not find it: everything is closed."""
    bought = await buy(harness, "pm_lost_reply")
    await harness.settler({"stripe": provider}).settle_all()
    await harness.apply(SKU, Move(Transition.FAIL, bought))
    settler = harness.settler({"stripe": restarted})
    await harness.settle_all(settler)
    assert ((await harness.one(settlements)).state, (await harness.one(payments)).state) == ("done", "new")
    stripe.index()
    key = payment_key_of(bought)
    assert await harness.audit(settler, {"stripe": restarted}).hint(
        notice(key, "payment_intent.amount_capturable_updated")
    )
    await harness.settle_all(settler)
    assert [intent["status"] for intent in stripe.by_key(key)] == ["canceled"]
    await check_books(harness, stripe)
