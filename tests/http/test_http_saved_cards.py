"""Saved cards over HTTP: a buyer chooses the card, and only their signed token says whose customer they are."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from http_calling import eventually, problem_of, wrong_fields
from http_sales import Store, body_of, store_of
from http_serving import Server, started

from stripe_server import API_KEY, StripeServer, running_stripe

NAMED_CUSTOMERS = ["cus_VICTIM/pm_VICTIM", "cus_VICTIM", "x/cus_VICTIM/pm_VICTIM", "cus_VICTIM\\pm_VICTIM"]


@pytest.fixture(scope="module")
async def stripe() -> AsyncIterator[StripeServer]:
    async with running_stripe() as running:
        yield running


@pytest.fixture(scope="module")
async def server(stripe: StripeServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    settings = {"STRIPE_API_KEY": API_KEY, "STRIPE_API_BASE": stripe.url}
    directory: Path = tmp_path_factory.mktemp("cards")
    starting = started(directory, settings=settings)
    server = await asyncio.to_thread(starting.__enter__)
    yield server
    await asyncio.to_thread(starting.__exit__, None, None, None)


def buy(store: Store, method: str, **claims: object) -> httpx.Response:
    with store.buyer("mallory", **claims) as buyer:
        return buyer.purchase(payment_method=method)


def confirm(store: Store, method: str, **claims: object) -> httpx.Response:
    with store.buyer("mallory", **claims) as buyer:
        held = body_of(buyer.purchase(), 201)["reservation_id"]
        return buyer.client.post(f"/v1/reservations/{held}/confirm", json={"payment_method": method})


def end_of(store: Store, reservation_id: str) -> str:
    """Its status once Stripe has been asked."""

    def ended() -> str:
        status = body_of(store.server.client.get(f"/v1/reservations/{reservation_id}"))["status"]
        return "" if status in ("active", "settling") else str(status)

    return eventually(ended)


def attack(store: Store, method: str, checkout: str) -> httpx.Response:
    store.open(payment="stripe", checkout=checkout)
    answer = buy(store, method) if checkout == "instant" else confirm(store, method)
    if answer.is_success:
        end_of(store, answer.json()["reservation_id"])
    return answer


@pytest.mark.parametrize("checkout", ["instant", "cart"])
@pytest.mark.parametrize("method", NAMED_CUSTOMERS)
async def test_a_buyer_cannot_name_the_customer_whose_card_is_charged(
    server: Server, stripe: StripeServer, method: str, checkout: str
) -> None:
    answer = await asyncio.to_thread(attack, store_of(server), method, checkout)
    assert "customer" in wrong_fields(answer)["payment_method"]
    assert not [intent for intent in stripe.intents.values() if intent["customer"] == "cus_VICTIM"]


def charged(store: Store, **claims: Any) -> str:
    store.open(payment="stripe", checkout="instant")
    reservation_id: str = body_of(buy(store, "pm_card_visa", **claims), 201)["reservation_id"]
    assert end_of(store, reservation_id) == "confirmed"
    return reservation_id


@pytest.mark.parametrize(
    ("claims", "customer"), [({}, None), ({"stripe_customer": "cus_MALLORY"}, "cus_MALLORY")], ids=["none", "signed"]
)
async def test_the_customer_is_the_one_of_the_signed_token(
    server: Server, stripe: StripeServer, claims: dict[str, str], customer: str | None
) -> None:
    bought = await asyncio.to_thread(charged, store_of(server), **claims)
    intents = [intent for intent in stripe.intents.values() if intent["metadata"]["reservation"] == bought]
    assert [intent["customer"] for intent in intents] == [customer]


async def test_a_token_whose_customer_cannot_be_one_is_refused(server: Server) -> None:
    answer = await asyncio.to_thread(buy, store_of(server), "pm_card_visa", stripe_customer="pm_card_visa")
    assert answer.status_code == 401
    assert "stripe_customer" in answer.json()["detail"]


def decline(store: Store) -> tuple[httpx.Response, dict[str, Any]]:
    """Confirm again without a card after the purchase's card was declined; and the reservation then."""
    store.open(payment="stripe", payment_attempts_max=3)
    with store.buyer("mallory") as buyer:
        held = body_of(buyer.purchase(payment_method="pm_card_chargeDeclined"), 201)["reservation_id"]
        path = f"/v1/reservations/{held}"
        body_of(buyer.client.post(f"{path}/confirm"), 202)
        eventually(lambda: body_of(buyer.client.get(path))["last_decline"])
        return buyer.client.post(f"{path}/confirm"), body_of(buyer.client.get(path))


async def test_a_declined_card_is_not_charged_again_unless_it_is_named(server: Server, stripe: StripeServer) -> None:
    refused, held = await asyncio.to_thread(decline, store_of(server))
    problem_of(refused, 409, "payment_method_required")
    assert (held["status"], held["attempts_left"]) == ("active", 2)
    intents = [one for one in stripe.intents.values() if one["metadata"]["reservation"] == held["reservation_id"]]
    assert len(intents) == 1
