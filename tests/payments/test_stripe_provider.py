"""What only Stripe does."""

from collections.abc import AsyncIterator

import pytest
from stages import new_charge

from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.payments.port import Payment, PaymentState
from holdfast.payments.stripe.provider import StripeProvider
from stripe_server import API_KEY, StripeServer

pytest_plugins = ("payment_fixtures",)


@pytest.fixture
async def provider(stripe: StripeServer) -> AsyncIterator[StripeProvider]:
    provider = StripeProvider(API_KEY, 5.0, stripe.url)
    yield provider
    await provider.close()


@pytest.fixture
async def restarted(stripe: StripeServer) -> AsyncIterator[StripeProvider]:
    """As after a restart: without memory."""
    provider = StripeProvider(API_KEY, 5.0, stripe.url)
    yield provider
    await provider.close()


async def test_a_card_that_needs_authentication_is_declined_and_cancelled(
    stripe: StripeServer, provider: StripeProvider, restarted: StripeProvider
) -> None:
    charge = new_charge("pm_needs_action")
    declined = await provider.authorise(charge)
    assert (declined.state, declined.reason) == (PaymentState.DECLINED, "authentication_required")
    assert [intent["status"] for intent in stripe.by_key(charge.key)] == ["canceled"]
    stripe.index()
    assert await restarted.look_up(charge.key) == declined


async def test_stripe_gets_the_customer_the_card_and_the_metadata(
    stripe: StripeServer, provider: StripeProvider
) -> None:
    charge = new_charge("pm_card_visa", customer="cus_7")
    await provider.authorise(charge)
    (intent,) = stripe.by_key(charge.key)
    assert (intent["customer"], intent["currency"]) == ("cus_7", "eur")
    expected = {"holdfast_key": charge.key, "reservation": charge.reservation_id, "sale": "sale", "buyer": "ada"}
    assert intent["metadata"] == expected


async def test_a_charge_without_a_card_is_declined(stripe: StripeServer, provider: StripeProvider) -> None:
    charge = new_charge(None)
    declined = await provider.authorise(charge)
    assert (declined.state, declined.reason) == (PaymentState.DECLINED, "resource_missing")
    assert stripe.by_key(charge.key) == []


async def test_nothing_is_retried(stripe: StripeServer, provider: StripeProvider) -> None:
    before = stripe.requests["/v1/payment_intents"]
    with pytest.raises(OutcomeUnknown):
        await provider.authorise(new_charge("pm_error"))
    assert stripe.requests["/v1/payment_intents"] == before + 1


async def test_a_stored_failure_stays_unknown_and_is_never_charged(
    stripe: StripeServer, provider: StripeProvider
) -> None:
    charge = new_charge("pm_error")
    for call in (provider.authorise(charge), provider.authorise(charge), provider.look_up(charge.key)):
        with pytest.raises(OutcomeUnknown):
            await call
    assert stripe.by_key(charge.key) == []


async def test_after_a_restart_a_lost_charge_is_found_by_search_or_by_repeating_it(
    stripe: StripeServer, provider: StripeProvider, restarted: StripeProvider
) -> None:
    charge = new_charge("pm_lost_reply")
    with pytest.raises(OutcomeUnknown):
        await provider.authorise(charge)
    # Search lags behind: it has not heard of it yet, and the same charge under the same key is the way to be sure.
    assert await restarted.look_up(charge.key) is None
    assert (await restarted.authorise(charge)).state is PaymentState.AUTHORISED
    assert len(stripe.by_key(charge.key)) == 1
    stripe.index()
    fresh = StripeProvider(API_KEY, 5.0, stripe.url)
    found = await fresh.look_up(charge.key)
    await fresh.close()
    assert found is not None
    assert found.state is PaymentState.AUTHORISED


async def test_two_payments_under_one_key_are_an_unknown_outcome(
    stripe: StripeServer, restarted: StripeProvider
) -> None:
    charge = new_charge("pm_card_visa")
    metadata = {"holdfast_key": charge.key}
    for number in ("pi_twin_1", "pi_twin_2"):
        stripe.intents[number] = {"id": number, "status": "succeeded", "amount": 1, "metadata": metadata}
    stripe.index()
    with pytest.raises(OutcomeUnknown, match="2 payments"):
        await restarted.look_up(charge.key)


async def test_a_wrong_api_key_means_nothing_happened(stripe: StripeServer) -> None:
    stranger = StripeProvider("sk_test_wrong", 5.0, stripe.url)
    charge = new_charge("pm_card_visa")
    with pytest.raises(Unavailable):
        await stranger.authorise(charge)
    await stranger.close()
    assert stripe.by_key(charge.key) == []


async def test_a_missing_intent_never_counts_as_captured(provider: StripeProvider) -> None:
    with pytest.raises(OutcomeUnknown):
        await provider.capture(Payment("k", PaymentState.AUTHORISED, "pi_never"))


async def test_a_refund_outlives_its_idempotency_key(stripe: StripeServer, provider: StripeProvider) -> None:
    payment = await provider.capture(await provider.authorise(new_charge("pm_card_visa")))
    first = await provider.refund(payment, 500, f"{payment.key}:r")
    stripe.forget_idempotency_keys()
    assert await provider.refund(payment, 500, f"{payment.key}:r") == first
    found = await provider.look_up(payment.key)
    assert found is not None
    assert found.refunded == 500


async def test_a_replayed_answer_does_not_count_as_the_current_state(
    provider: StripeProvider, restarted: StripeProvider
) -> None:
    """Stripe repeats its first answer for a day, even if the payment has changed since."""
    charge = new_charge("pm_card_visa")
    await provider.capture(await provider.authorise(charge))
    assert (await restarted.authorise(charge)).state is PaymentState.CAPTURED
