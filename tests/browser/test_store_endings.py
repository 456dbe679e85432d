"""Purchases that do not succeed: the page says why, and what to do next."""

import re

import pytest
from browsing import SMALL
from http_calling import eventually
from http_sales import Store, in_seconds
from http_serving import Server
from playwright.sync_api import Locator, Page, expect
from storefronts import LINE, ORDER_NUMBER, PURSE, look_at, pause_room, press, sale, sell_rest, state, visit

pytest_plugins = ("http_fixtures", "browser_fixtures", "store_fixtures")


def refused(panel: Locator, title: str) -> None:
    state(panel, "refused")
    expect(panel.get_by_role("heading", name=title)).to_be_visible()


def test_a_declined_payment_says_why_and_can_be_tried_again(page: Page, demo: Server) -> None:
    store = sale(demo, price={"amount": PURSE + 1, "currency": "EUR"})
    panel = visit(page, store)
    press(panel, "Buy for")
    press(panel, "Pay")
    for left in ("2 more times", "once more"):
        expect(panel).to_contain_text(f"You can try {left}")
        state(panel, "cart")
        expect(panel).to_contain_text("Your balance is too low")
        assert store.counts() == (2, 1, 0)
        page.set_viewport_size(SMALL)  # type: ignore[arg-type]
        expect(panel.get_by_role("button", name="Try again")).to_be_in_viewport(ratio=1)
        look_at(page, f"declined-{left.replace(' ', '-')}")
        press(panel, "Try again")
    state(panel, "declined")
    expect(panel).to_contain_text("Your balance is too low")
    look_at(page, "declined")
    eventually(lambda: store.counts() == (3, 0, 0))
    press(panel, "Try again")
    state(panel, "cart")


def test_a_cart_that_is_not_paid_in_time_goes_back_on_sale(page: Page, demo: Server) -> None:
    store = sale(demo, hold_seconds=2)
    panel = visit(page, store)
    press(panel, "Buy for")
    refused(panel, "Time ran out")
    expect(panel).to_contain_text("You were not charged")
    look_at(page, "expired")
    assert store.change(hold_seconds=300).status_code == 200
    press(panel, "Try again")
    state(panel, "cart")


def test_removing_from_the_cart_asks_for_confirmation(page: Page, demo: Server) -> None:
    store = sale(demo, hold_budget=1)
    panel = visit(page, store)
    press(panel, "Buy for")
    press(panel, "Remove from cart")
    expect(panel.get_by_role("button", name="Keep it")).to_be_focused()
    press(panel, "Remove")
    refused(panel, "Removed from your cart")
    assert store.counts() == (3, 0, 0)
    press(panel, "Try again")
    refused(panel, "Too many unpaid carts")
    press(panel, "Back to the sale")
    expect(panel.get_by_role("button", name="Buy for")).to_be_visible()


def test_everyone_in_line_sees_when_the_last_unit_is_sold(page: Page, demo: Server) -> None:
    store = sale(demo, room=LINE, per_buyer_limit=None)
    pause_room(store, paused=True)
    panel = visit(page, store)
    press(panel, "Join the line")
    state(panel, "waiting")
    sell_rest(store)
    refused(panel, "Sold out")
    look_at(page, "sold-out")
    page.goto(page.url)
    expect(page.locator(".stock")).to_have_text("Sold out")


def test_all_in_carts_is_shown_with_the_time_of_the_next_release(page: Page, demo: Server) -> None:
    store = sale(demo, total_units=1, room=LINE | {"pass_seconds": 20}, hold_seconds=60, payment="external")
    pause_room(store, paused=True)
    panel = visit(page, store)
    press(panel, "Join the line")
    state(panel, "waiting")
    held = hold_all(store)
    expect(page.locator(".stock")).to_have_text("All in carts")
    expect(panel).to_contain_text(re.compile(r"The next one may be released at \d\d:\d\d:\d\d"))
    look_at(page, "all-held")
    store.server.client.delete(f"/v1/reservations/{held}")
    pause_room(store, paused=False)
    state(panel, "cart")
    expect(panel).to_contain_text("Pay at the shop's checkout")


def test_a_buyer_who_finds_all_in_carts_gets_the_first_unit_released(page: Page, demo: Server) -> None:
    store = sale(demo, total_units=1)
    held = hold_all(store)
    panel = visit(page, store)
    expect(panel).to_contain_text("The next one may be released at")
    press(panel, "Get the next free one")
    state(panel, "hoping")
    expect(panel).to_contain_text("The next one may be released at")
    look_at(page, "hoping")
    press(panel, "Stop waiting")
    refused(panel, "You left the line")
    press(panel, "Try again")
    state(panel, "hoping")
    store.server.client.delete(f"/v1/reservations/{held}")
    state(panel, "cart")


def hold_all(store: Store) -> str:
    given = {"owner_id": "somebody", "quantity": 1, "ttl_seconds": 600}
    answer = store.server.client.post(f"/v1/inventory/{store.sku_id}/reserve", json=given)
    return str(answer.json()["reservation_id"])


def test_at_the_buyer_limit_the_order_is_shown(page: Page, demo: Server) -> None:
    store = sale(demo)
    panel = visit(page, store)
    press(panel, "Buy for")
    press(panel, "Pay")
    state(panel, "confirmed")
    expect(panel).to_contain_text(ORDER_NUMBER)
    page.evaluate("localStorage.clear()")
    page.route("**/mine", lambda route: route.abort())
    page.reload()
    press(panel, "Buy for")
    refused(panel, "Purchase limit reached")
    expect(panel).to_contain_text(ORDER_NUMBER)
    look_at(page, "buyer-limit")


def test_leaving_the_line_asks_for_confirmation_and_releases_the_place(page: Page, demo: Server) -> None:
    store = sale(demo, room=LINE, starts_at=in_seconds(3_600))
    panel = visit(page, store)
    press(panel, "Join the line")
    state(panel, "waiting")
    press(panel, "Leave the line")
    press(panel, "Stay in line")
    state(panel, "waiting")
    press(panel, "Leave the line")
    press(panel, "Leave the line")
    refused(panel, "You left the line")
    press(panel, "Join the line again")
    state(panel, "waiting")


@pytest.mark.parametrize(("terms", "title"), [({"required_tier": 2}, "Members only")])
def test_a_refusal_has_its_own_message(page: Page, demo: Server, terms: dict[str, object], title: str) -> None:
    panel = visit(page, sale(demo, **terms))
    press(panel, "Buy for")
    refused(panel, title)
    look_at(page, "refused")


def test_a_closed_sale_has_ended(page: Page, demo: Server) -> None:
    store = sale(demo)
    store.act("close")
    panel = visit(page, store)
    expect(panel).to_contain_text("This sale has ended.")
    look_at(page, "ended")
