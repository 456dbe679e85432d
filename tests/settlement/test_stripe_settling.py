"""Orders paid through Stripe, by the settler, against a local server that speaks Stripe's calls."""

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from settle_world import PRICE, SKU, SettleWorld, other_sale
from stripe import WebhookSignature

from holdfast.domain.command import Move, Reserve, Transition
from holdfast.domain.reservation import new_reservation_id
from holdfast.domain.sale import PaymentKind, order_id_of, payment_key_of
from holdfast.domain.settling import reacquired_id
from holdfast.ledger.payment_notes import note_method
from holdfast.ledger.refunds import Wanted
from holdfast.ledger.sale_tables import orders, payments, refunds, settlements
from holdfast.ledger.tables import pools, reservations
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
    """What earlier tests did is still in its books; keys tell them apart."""
    _stripe.lose_next.clear()
    return _stripe


@pytest.fixture
async def provider(stripe: StripeServer) -> AsyncIterator[StripeProvider]:
    made = StripeProvider(API_KEY, 5.0, stripe.url)
    yield made
    await made.close()


@pytest.fixture
async def restarted(stripe: StripeServer) -> AsyncIterator[StripeProvider]:
    """That of another process: it remembers nothing."""
    made = StripeProvider(API_KEY, 5.0, stripe.url)
    yield made
    await made.close()


async def buy(world: SettleWorld, method: str, units: int = 2) -> str:
    await world.open_sale(units, PAID_BY_CARD)
    bought = new_reservation_id(SKU, "ada")
    await world.database.write(lambda c: note_method(c, PAID_BY_CARD, bought, "ada", 1, method, 1))
    await world.buy_all([Reserve(bought, "ada", 1, 1, settle=True)])
    return bought


async def check_books(world: SettleWorld, stripe: StripeServer) -> None:
    """By Stripe's own books: each charge taken once at most, and each an order or a refund."""
    ordered, owed = (
        {o.reservation_id for o in await world.rows(orders)},
        {r.payment_key for r in await world.rows(refunds)},
    )
    for payment in await world.rows(payments):
        intents = stripe.by_key(payment.payment_key)
        assert len(intents) <= 1
        taken = sum(stripe.captures[intent["id"]] for intent in intents)
        assert taken == int(payment.reservation_id in ordered or payment.payment_key in owed)
        assert not any(intent["status"] == "requires_capture" for intent in intents)
    pool = await world.one(pools)
    assert (pool.held, pool.sold) == (0, len(ordered))


def notice(key: str, kind: str = "payment_intent.succeeded") -> str:
    """As Stripe signs and sends it; gives the key that is read from it."""
    event: dict[str, Any] = {"id": "evt_1", "type": kind, "data": {"object": {"metadata": {"holdfast_key": key}}}}
    body, now = json.dumps(event), int(time.time())
    signature = WebhookSignature._compute_signature(f"{now}.{body}", SECRET)
    read = read_webhook(SECRET, body.encode(), f"t={now},v1={signature}")
    assert read.key == key
    return key


@pytest.mark.parametrize(
    ("method", "status", "reason"),
    [
        ("cus_1/pm_card_visa", "confirmed", None),
        ("pm_card_chargeDeclinedInsufficientFunds", "failed", "insufficient_funds"),
        ("pm_needs_action", "failed", "authentication_required"),
        ("pm_lost_reply", "confirmed", None),
    ],
)
async def test_each_card_ends_well(
    world: SettleWorld, stripe: StripeServer, provider: StripeProvider, method: str, status: str, reason: str | None
) -> None:
    await buy(world, method)
    await world.settle_all(world.settler({"stripe": provider}))
    assert ((await world.one(reservations)).status, (await world.one(payments)).reason) == (status, reason)
    await check_books(world, stripe)


async def test_a_capture_whose_reply_was_lost_is_found_after_a_restart_though_search_lags(
    world: SettleWorld, stripe: StripeServer, provider: StripeProvider, restarted: StripeProvider
) -> None:
    bought = await buy(world, "pm_card_visa")
    stripe.lose_next.add("capture")
    await world.settler({"stripe": provider}).settle_all()
    assert (await world.one(payments)).state == "claimed"
    assert (await world.one(reservations)).status == "settling"
    await world.settle_all(world.settler({"stripe": restarted}))
    assert (await world.one(orders)).reservation_id == bought
    await check_books(world, stripe)


async def test_a_charge_whose_reply_was_lost_is_asked_for_again_under_its_key_after_a_restart(
    world: SettleWorld, stripe: StripeServer, provider: StripeProvider, restarted: StripeProvider
) -> None:
    bought = await buy(world, "pm_lost_reply")
    await world.settler({"stripe": provider}).settle_all()
    assert (await world.one(payments)).state == "attempted"
    await world.settle_all(world.settler({"stripe": restarted}))
    assert (await world.one(orders)).reservation_id == bought
    assert len(stripe.by_key(payment_key_of(bought))) == 1
    await check_books(world, stripe)


async def test_an_order_is_refunded_once_in_parts(
    world: SettleWorld, stripe: StripeServer, provider: StripeProvider
) -> None:
    bought = await buy(world, "pm_card_visa")
    await world.settle_all(world.settler({"stripe": provider}))
    office, order_id = Refunder(world.database, {"stripe": provider}), order_id_of(bought)
    for key, amount in (("a", 400), ("a", 400), ("rest", None)):
        assert (await office.request(Wanted(order_id, key, amount))).state == "done"
    [intent] = stripe.by_key(payment_key_of(bought))
    assert [r["amount"] for r in stripe.refunds if r["payment_intent"] == intent["id"]] == [400, PRICE - 400]
    assert ((await world.one(orders)).status, intent["latest_charge"]["amount_refunded"]) == ("refunded", PRICE)


async def test_a_webhook_that_comes_first_or_twice_changes_nothing(
    world: SettleWorld, stripe: StripeServer, provider: StripeProvider
) -> None:
    bought = await buy(world, "pm_card_visa")
    settler = world.settler({"stripe": provider})
    audit, key = world.audit(settler, {"stripe": provider}), payment_key_of(bought)
    assert await audit.hint(notice(key, "payment_intent.amount_capturable_updated"))
    await world.settle_all(settler)
    for _ in range(2):
        assert await audit.hint(notice(key))
    await world.settle_all(settler)
    assert not await audit.hint(notice("pay_of_somebody_else"))
    assert len(await world.rows(orders)) == 1
    await check_books(world, stripe)


async def late(world: SettleWorld, stripe: StripeServer, provider: StripeProvider, units: int) -> str:
    """Captured, the reply lost, and the reservation ended before anybody knew."""
    bought = await buy(world, "pm_card_visa", units)
    stripe.lose_next.add("capture")
    await world.settler({"stripe": provider}).settle_all()
    await world.apply(SKU, Move(Transition.FAIL, bought))
    return bought


async def test_money_that_came_too_late_gets_another_unit(
    world: SettleWorld, stripe: StripeServer, provider: StripeProvider
) -> None:
    bought = await late(world, stripe, provider, units=1)
    for _ in range(2):
        await world.settle_all(world.settler({"stripe": provider}))
    assert (await world.one(orders)).reservation_id == reacquired_id(bought)
    await check_books(world, stripe)


async def test_money_that_came_too_late_for_any_unit_goes_back(
    world: SettleWorld, stripe: StripeServer, provider: StripeProvider
) -> None:
    bought = await late(world, stripe, provider, units=1)
    taken = new_reservation_id(SKU, "bob")
    await world.apply(SKU, Reserve(taken, "bob", 1, 1))
    await world.settle_all(world.settler({"stripe": provider}))
    await Refunder(world.database, {"stripe": provider}).pass_once()
    await world.apply(SKU, Move(Transition.CANCEL, taken))
    [intent] = stripe.by_key(payment_key_of(bought))
    assert ((await world.one(refunds)).state, intent["latest_charge"]["amount_refunded"]) == ("done", PRICE)
    await check_books(world, stripe)


async def test_a_success_that_only_a_webhook_tells_of_walks_the_ladder(
    world: SettleWorld, stripe: StripeServer, provider: StripeProvider, restarted: StripeProvider
) -> None:
    """The reply was lost, the worker died, the hold was let go, and search had not heard of it: all is closed."""
    bought = await buy(world, "pm_lost_reply")
    await world.settler({"stripe": provider}).settle_all()
    await world.apply(SKU, Move(Transition.FAIL, bought))
    settler = world.settler({"stripe": restarted})
    await world.settle_all(settler)
    assert ((await world.one(settlements)).state, (await world.one(payments)).state) == ("done", "new")
    stripe.index()
    key = payment_key_of(bought)
    assert await world.audit(settler, {"stripe": restarted}).hint(
        notice(key, "payment_intent.amount_capturable_updated")
    )
    await world.settle_all(settler)
    assert [intent["status"] for intent in stripe.by_key(key)] == ["canceled"]
    await check_books(world, stripe)
