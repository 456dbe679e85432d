"""Cards whose bank asks the buyer (3-D Secure), against a local server with Stripe's API: on every engine."""

import json
from collections.abc import AsyncIterator

import pytest
from settle_harness import PRICE, SKU, SettleHarness, other_sale

from holdfast.checkout.payment_steps import PaymentPhase, PaymentSteps
from holdfast.domain.sale.sale import PaymentKind, payment_key_of
from holdfast.domain.stock.command import Move, Reserve, Transition
from holdfast.domain.stock.reservation import Reservation, new_reservation_id
from holdfast.ledger.money.payment_notes import Method, last_decline, note_method
from holdfast.ledger.stock.journal import find_reservations
from holdfast.ledger.tables.money import payments, settlements
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import pools, reservations
from holdfast.payments.notice import NoticeRefused
from holdfast.payments.stripe.provider import StripeProvider
from holdfast.payments.stripe.webhook import read_webhook
from holdfast.settlement import record
from holdfast.settlement.payment_audit import PaymentAudit
from holdfast.settlement.settler import Settler
from stripe_server import API_KEY, WEBHOOK_SECRET, StripeServer, running_stripe, signed_webhook

pytest_plugins = ("settle_fixtures",)

SALE = other_sale(SKU, payment=PaymentKind.STRIPE, payment_attempts_max=3)


@pytest.fixture(scope="module")
async def stripe() -> AsyncIterator[StripeServer]:
    async with running_stripe() as server:
        yield server


@pytest.fixture
async def provider(stripe: StripeServer) -> AsyncIterator[StripeProvider]:
    made = StripeProvider(API_KEY, 5.0, stripe.url)
    yield made
    await made.close()


@pytest.fixture
def settler(harness: SettleHarness, provider: StripeProvider) -> Settler:
    return harness.settler({"stripe": provider})


@pytest.fixture
def audit(harness: SettleHarness, settler: Settler, provider: StripeProvider) -> PaymentAudit:
    return harness.audit(settler, {"stripe": provider})


@pytest.fixture
def steps(harness: SettleHarness, provider: StripeProvider, audit: PaymentAudit) -> PaymentSteps:
    return PaymentSteps(harness.database, {"stripe": provider}, audit.hint)


async def note(harness: SettleHarness, reservation_id: str, card: str, attempt: int) -> None:
    chosen = Method(card)
    await harness.database.write(lambda c: note_method(c, SALE, reservation_id, "ada", 1, chosen, 1, attempt))


async def asked(harness: SettleHarness, settler: Settler) -> str:
    """A reservation whose buyer the bank asks. Tokens are used once."""
    await harness.open_sale(1, SALE)
    bought = new_reservation_id(SKU, "ada")
    await note(harness, bought, f"ctoken_bank_{bought}", 1)
    await harness.buy_all([Reserve(bought, "ada", 1, 1, settle=True, ttl_ms=600_000)])
    await settler.settle_all()
    assert ((await harness.one(payments)).state, (await harness.one(settlements)).state) == ("attempted", "waiting")
    return bought


async def settle(harness: SettleHarness, settler: Settler) -> None:
    await settler.settle_all()
    await harness.drain()


async def status(harness: SettleHarness) -> str:
    await harness.drain()
    return str((await harness.one(reservations)).status)


async def found(harness: SettleHarness, reservation_id: str) -> Reservation:
    known = await harness.database.read(lambda c: find_reservations(c, SKU, [reservation_id]))
    return known[reservation_id]


def webhook(key: str, kind: str = "amount_capturable_updated") -> str:
    notice = read_webhook(WEBHOOK_SECRET, *signed_webhook(key, f"payment_intent.{kind}"))
    assert notice.key is not None
    return notice.key


async def test_the_hold_is_settling_while_the_bank_asks_and_the_webhook_finishes_it(
    harness: SettleHarness, stripe: StripeServer, settler: Settler, audit: PaymentAudit
) -> None:
    bought = await asked(harness, settler)
    key = payment_key_of(bought)
    # A webhook that comes before the answer, and passes of the settler, change nothing.
    assert await audit.hint(webhook(key, "requires_action"))
    await settle(harness, settler)
    assert (await status(harness), (await harness.one(settlements)).attempts) == ("settling", 0)
    stripe.answer_bank(key, approved=True)
    for kind in ("amount_capturable_updated", "amount_capturable_updated", "requires_action"):
        assert await audit.hint(webhook(key, kind))
    await settle(harness, settler)
    await harness.settle_all(settler)
    # Webhooks again, and those of the capture in the wrong order.
    for kind in ("succeeded", "created", "succeeded"):
        assert await audit.hint(webhook(key, kind))
    await harness.settle_all(settler)
    assert await status(harness) == "confirmed"
    [intent] = stripe.by_key(key)
    assert (stripe.captures[intent["id"]], intent["amount"], len(await harness.rows(orders))) == (1, PRICE, 1)


async def test_the_return_finishes_it_if_no_webhook_comes(
    harness: SettleHarness, stripe: StripeServer, settler: Settler, steps: PaymentSteps
) -> None:
    bought = await asked(harness, settler)
    step = await steps.next(await found(harness, bought))
    [intent] = stripe.by_key(payment_key_of(bought))
    assert step.phase is PaymentPhase.ACTION_REQUIRED
    assert step.action is not None
    assert step.action.client_secret == intent["client_secret"]
    stripe.answer_bank(payment_key_of(bought), approved=True)
    # The answer is not awaited any more, and nothing is certain yet.
    assert (await steps.next(await found(harness, bought))).phase is PaymentPhase.PROCESSING
    for _ in range(2):
        await steps.returned(await found(harness, bought))
    await settle(harness, settler)
    await harness.settle_all(settler)
    assert await status(harness) == "confirmed"
    assert (await steps.next(await found(harness, bought))).phase is PaymentPhase.NONE
    assert stripe.captures[intent["id"]] == 1


async def test_a_refused_bank_keeps_the_units_and_another_card_pays(
    harness: SettleHarness, stripe: StripeServer, settler: Settler, audit: PaymentAudit
) -> None:
    bought = await asked(harness, settler)
    stripe.answer_bank(payment_key_of(bought), approved=False)
    assert await audit.hint(webhook(payment_key_of(bought), "payment_failed"))
    await harness.settle_all(settler)
    assert await status(harness) == "active"
    declined = await harness.database.read(lambda c: last_decline(c, bought))
    # The buyer has the secret of the first payment, which must not be able to pay any more.
    assert [intent["status"] for intent in stripe.by_key(payment_key_of(bought))] == ["canceled"]
    assert declined is not None
    assert declined.reason == "authentication_failed"
    await note(harness, bought, f"ctoken_visa_{bought}", 2)
    await harness.apply(SKU, Move(Transition.SETTLE, bought))
    await harness.drain()
    await harness.settle_all(settler)
    # Stripe tells of the first one once more.
    assert await audit.hint(webhook(payment_key_of(bought), "canceled"))
    await harness.settle_all(settler)
    assert await status(harness) == "confirmed"
    assert [stripe.captures[i["id"]] for i in stripe.by_key(payment_key_of(bought, 2))] == [1]


async def test_a_bank_that_nobody_answers_is_cancelled_before_the_units_return(
    harness: SettleHarness, stripe: StripeServer, settler: Settler, monkeypatch: pytest.MonkeyPatch
) -> None:
    bought = await asked(harness, settler)
    monkeypatch.setattr(record.Record, "answer_until", property(lambda _: 0))
    await harness.make_due()
    await harness.settle_all(settler)
    [intent] = stripe.by_key(payment_key_of(bought))
    declined = await harness.database.read(lambda c: last_decline(c, bought))
    assert declined is not None
    assert (intent["status"], declined.reason) == ("canceled", "authentication_required")
    assert (await status(harness), stripe.captures[intent["id"]]) == ("active", 0)


async def test_an_answer_after_the_reservation_ended_takes_no_money(
    harness: SettleHarness, stripe: StripeServer, settler: Settler, audit: PaymentAudit
) -> None:
    bought = await asked(harness, settler)
    await harness.apply(SKU, Move(Transition.FAIL, bought))
    await harness.drain()
    stripe.answer_bank(payment_key_of(bought), approved=True)
    assert await audit.hint(webhook(payment_key_of(bought)))
    await harness.settle_all(settler)
    [intent] = stripe.by_key(payment_key_of(bought))
    assert (intent["status"], stripe.captures[intent["id"]]) == ("canceled", 0)
    pool = await harness.one(pools)
    assert (pool.held, pool.sold) == (0, 0)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_a_declined_token_is_told_at_once(harness: SettleHarness, stripe: StripeServer, settler: Settler) -> None:
    await harness.open_sale(1, SALE)
    bought = new_reservation_id(SKU, "ada")
    await note(harness, bought, f"ctoken_declined_{bought}", 1)
    await harness.buy_all([Reserve(bought, "ada", 1, 1, settle=True, ttl_ms=600_000)])
    await harness.settle_all(settler)
    declined = await harness.database.read(lambda c: last_decline(c, bought))
    assert declined is not None
    assert (await status(harness), declined.reason) == ("active", "generic_decline")
    assert [intent["status"] for intent in stripe.by_key(payment_key_of(bought))] == ["requires_payment_method"]


def test_a_webhook_with_another_signature_or_an_old_one_is_refused() -> None:
    body, signature = signed_webhook("pay_1", "payment_intent.succeeded")
    forged = json.dumps(json.loads(body) | {"id": "evt_2"}).encode()
    old = signed_webhook("pay_1", "payment_intent.succeeded", at=1_000)
    for given in ((forged, signature), (body, signature[:-1] + "x"), (body, None), old):
        with pytest.raises(NoticeRefused):
            read_webhook(WEBHOOK_SECRET, *given)
