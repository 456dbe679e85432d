"""Cards typed into Stripe's form, against a local stand-in for Stripe and its script; and the demo's test cards."""

import re
from collections.abc import Iterator

import pytest
from browsing import SMALL, assert_accessible, keep, window
from http_calling import eventually
from http_serving import Server, started
from playwright.sync_api import Browser, Locator, Page, expect
from storefronts import look_at, press, sale, state, visit

from forking import HOLDFAST
from stripe_server import API_KEY, PUBLISHABLE_KEY, WEBHOOK_SECRET, StripeServer, stripe_in_a_thread

pytest_plugins = ("http_fixtures", "browser_fixtures", "store_fixtures")

WORKS, DECLINED, ASKS = "4242 4242 4242 4242", "4000 0000 0000 0002", "4000 0027 6000 3184"


@pytest.fixture(scope="module")
def stripe() -> Iterator[StripeServer]:
    with stripe_in_a_thread() as server:
        yield server


@pytest.fixture(scope="module")
def card_shop(stripe: StripeServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {
        "STRIPE_API_KEY": API_KEY,
        "STRIPE_PUBLISHABLE_KEY": PUBLISHABLE_KEY,
        "STRIPE_WEBHOOK_SECRET": WEBHOOK_SECRET,
        "STRIPE_API_BASE": stripe.url,
    }
    directory = tmp_path_factory.mktemp("cards")
    with started(directory, "--no-crowd", "--no-simulation", settings=settings, command=(*HOLDFAST, "demo")) as server:
        stripe.webhook_url = f"{server.url}/v1/payments/stripe/webhook"
        yield server


def type_card(page: Page, number: str) -> None:
    page.get_by_label("Card number").fill(number)
    press(page.locator("#panel"), "pay" if page.get_by_role("button", name="Try again").count() else "Pay")


@pytest.mark.parametrize("has_webhooks", [True, False])
def test_a_card_whose_bank_asks_is_paid_after_the_buyer_approved(
    page: Page, card_shop: Server, stripe: StripeServer, has_webhooks: bool
) -> None:
    """With webhooks (each sent twice), and with the buyer's return alone."""
    stripe.posts_webhooks, stripe.webhook_times = has_webhooks, 2
    store = sale(card_shop, payment="stripe", payment_attempts_max=3)
    panel = visit(page, store)
    press(panel, "Buy for")
    type_card(page, DECLINED)
    expect(panel).to_contain_text("You can try 2 more times")
    look_at(page, "card-declined") if has_webhooks else None
    type_card(page, ASKS)
    expect(panel).to_contain_text("Your bank asks you to confirm")
    assert store.counts() == (2, 1, 0)
    bank = page.frame_locator("iframe")
    expect(bank.get_by_role("heading", name="Your bank asks")).to_be_visible()
    keep(page, "store-bank-asks")
    bank.get_by_role("button", name="Approve").click()
    state(panel, "confirmed")
    eventually(lambda: store.counts() == (2, 0, 1))
    intents = [i for i in stripe.intents.values() if i["metadata"]["sale"] == store.sale_id]
    taken = [(i["amount"], i["currency"], stripe.captures[i["id"]]) for i in intents if i["status"] == "succeeded"]
    assert taken == [(4999, "eur", 1)]


def test_a_buyer_who_refuses_at_the_bank_keeps_the_unit_and_pays_with_another_card(
    page: Page, card_shop: Server, stripe: StripeServer
) -> None:
    stripe.posts_webhooks, stripe.webhook_times = True, 1
    store = sale(card_shop, payment="stripe", payment_attempts_max=3)
    panel = visit(page, store)
    press(panel, "Buy for")
    type_card(page, ASKS)
    page.frame_locator("iframe").get_by_role("button", name="Refuse").click()
    expect(panel).to_contain_text("did not get your confirmation")
    type_card(page, WORKS)
    state(panel, "confirmed")
    look_at(page, "card-confirmed")


def test_a_reload_while_the_bank_asks_shows_the_bank_again(page: Page, card_shop: Server, stripe: StripeServer) -> None:
    stripe.posts_webhooks = False
    store = sale(card_shop, payment="stripe")
    panel = visit(page, store)
    press(panel, "Buy for")
    type_card(page, ASKS)
    expect(page.frame_locator("iframe").get_by_role("heading")).to_be_visible()
    page.reload()
    page.frame_locator("iframe").get_by_role("button", name="Approve").click()
    state(panel, "confirmed")


def test_an_incomplete_card_is_told_by_the_form(page: Page, card_shop: Server) -> None:
    panel = visit(page, sale(card_shop, payment="stripe"))
    press(panel, "Buy for")
    press(panel, "Pay")
    expect(panel.get_by_role("alert")).to_have_text("Your card number is incomplete.")
    state(panel, "cart")


def test_only_pages_of_sales_that_take_cards_may_load_stripes_script(card_shop: Server, stripe: StripeServer) -> None:
    for payment, is_allowed in (("stripe", True), ("wallet", False)):
        store = sale(card_shop, payment=payment)
        policy = store.server.client.get(f"/s/{store.sale_id}").headers["content-security-policy"]
        for directive in ("script-src", "frame-src", "connect-src"):
            assert bool(re.search(rf"{directive} [^;]*{re.escape(stripe.url)}", policy)) is is_allowed


def pay_with(panel: Locator, card: str) -> None:
    panel.get_by_label("Test card").select_option(label=card)
    press(panel, "pay" if panel.get_by_role("button", name="Try again").count() else "Pay")


def test_the_demo_offers_test_cards_and_a_bank_that_asks(browser: Browser, demo: Server) -> None:
    assert demo.client.get("/v1/sales/drop-1").json()["payment"] == "sandbox"
    store = sale(demo, payment="sandbox", payment_attempts_max=3)
    with window(browser, viewport=SMALL, has_touch=True, is_mobile=True) as phone:
        panel = visit(phone, store)
        press(panel, "Buy for")
        expect(panel.get_by_role("button", name="Pay")).to_be_in_viewport(ratio=1)
        look_at(phone, "test-cards")
        phone.set_viewport_size(SMALL)  # type: ignore[arg-type]
        pay_with(panel, "Declined")
        expect(panel).to_contain_text("You can try 2 more times")
        expect(panel.get_by_role("button", name="Try again")).to_be_in_viewport(ratio=1)
        keep(phone, "store-test-card-declined")
        pay_with(panel, "Asks the bank")
        panel.get_by_role("link", name="Continue to your bank").click()
        expect(phone.get_by_role("heading", name="Confirm your payment of 49.99 EUR?")).to_be_visible()
        assert_accessible(phone)
        keep(phone, "demo-bank")
        phone.get_by_role("button", name="Confirm").click()
        phone.get_by_role("link", name="Back to the shop").click()
        state(panel, "confirmed")
    assert store.counts() == (2, 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("card", ["Works", "Slow", "Lost reply"])
def test_a_test_card_pays_once(page: Page, demo: Server, card: str) -> None:
    store = sale(demo, payment="sandbox")
    panel = visit(page, store)
    press(panel, "Buy for")
    pay_with(panel, card)
    state(panel, "confirmed")
    assert store.counts() == (2, 0, 1)
