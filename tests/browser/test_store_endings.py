"""How it ends for those who get nothing: each is told why, and what to do."""

import re

import pytest
from http_calling import eventually
from http_sales import Store, in_seconds
from http_serving import Server
from playwright.sync_api import Locator, Page, expect
from storefronts import LINE, PURSE, look_at, pause_room, press, sale, sell_rest, state, visit

pytest_plugins = ("http_fixtures", "browser_fixtures", "store_fixtures")


def refused(panel: Locator, title: str) -> None:
    state(panel, "refused")
    expect(panel.get_by_role("heading", name=title)).to_be_visible()


def test_a_declined_payment_says_why_and_can_be_tried_again(page: Page, demo: Server) -> None:
    store = sale(demo, price={"amount": PURSE + 1, "currency": "EUR"})
    panel = visit(page, store)
    press(panel, "Buy for")
    press(panel, "Pay")
    state(panel, "declined")
    expect(panel).to_contain_text("not enough in your account")
    expect(panel).to_contain_text("Payment refused")
    look_at(page, "declined")
    eventually(lambda: store.counts() == (3, 0, 0))
    press(panel, "Try again")
    state(panel, "cart")


def test_a_cart_that_is_not_paid_for_in_time_goes_back(page: Page, demo: Server) -> None:
    store = sale(demo, hold_seconds=2)
    panel = visit(page, store)
    press(panel, "Buy for")
    refused(panel, "Time was up")
    expect(panel).to_contain_text("You were not charged")
    look_at(page, "expired")
    assert store.change(hold_seconds=300).status_code == 200
    press(panel, "Try again")
    state(panel, "cart")


def test_what_is_given_back_is_given_back_after_a_question(page: Page, demo: Server) -> None:
    store = sale(demo, hold_budget=1)
    panel = visit(page, store)
    press(panel, "Buy for")
    press(panel, "Give it back")
    expect(panel.get_by_role("button", name="Keep it")).to_be_focused()
    press(panel, "Yes, give it back")
    refused(panel, "You gave it back")
    assert store.counts() == (3, 0, 0)
    press(panel, "Try again")
    refused(panel, "Too many let go")
    press(panel, "Look at the sale")
    expect(panel.get_by_role("button", name="Buy for")).to_be_visible()


def test_everyone_in_line_is_told_when_the_last_is_sold(page: Page, demo: Server) -> None:
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


def test_all_in_carts_is_told_with_the_time_when_some_may_come_back(page: Page, demo: Server) -> None:
    store = sale(demo, total_units=1, room=LINE | {"pass_seconds": 20}, hold_seconds=60, payment="external")
    pause_room(store, paused=True)
    panel = visit(page, store)
    press(panel, "Join the line")
    state(panel, "waiting")
    held = hold_all(store)
    expect(page.locator(".stock")).to_contain_text(re.compile(r"All in carts, some may come back at \d\d:\d\d:\d\d"))
    look_at(page, "all-held")
    store.server.client.delete(f"/v1/reservations/{held}")
    pause_room(store, paused=False)
    state(panel, "cart")
    expect(panel).to_contain_text("Pay at the shop's checkout")


def test_who_finds_all_in_carts_hopes_and_gets_the_first_that_comes_back(page: Page, demo: Server) -> None:
    store = sale(demo, total_units=1)
    held = hold_all(store)
    panel = visit(page, store)
    press(panel, "Buy for")
    state(panel, "hoping")
    expect(panel).to_contain_text("The next may come back at")
    look_at(page, "hoping")
    press(panel, "Stop trying")
    refused(panel, "You stopped waiting")
    press(panel, "Try again")
    state(panel, "hoping")
    store.server.client.delete(f"/v1/reservations/{held}")
    state(panel, "cart")


def hold_all(store: Store) -> str:
    given = {"owner_id": "somebody", "quantity": 1, "ttl_seconds": 600}
    answer = store.server.client.post(f"/v1/inventory/{store.sku_id}/reserve", json=given)
    return str(answer.json()["reservation_id"])


def test_who_has_one_is_shown_the_order(page: Page, demo: Server) -> None:
    store = sale(demo)
    panel = visit(page, store)
    press(panel, "Buy for")
    press(panel, "Pay")
    state(panel, "confirmed")
    page.evaluate("localStorage.clear()")
    page.reload()
    press(panel, "Buy for")
    refused(panel, "You have yours")
    expect(panel).to_contain_text(re.compile(r"ord_[0-9a-f]{32}"))
    look_at(page, "buyer-limit")


def test_leaving_the_line_asks_first_and_gives_the_place_up(page: Page, demo: Server) -> None:
    store = sale(demo, room=LINE, starts_at=in_seconds(3_600))
    panel = visit(page, store)
    press(panel, "Join the line")
    state(panel, "waiting")
    press(panel, "Leave the line")
    press(panel, "Stay in line")
    state(panel, "waiting")
    press(panel, "Leave the line")
    press(panel, "Yes, leave")
    refused(panel, "You stopped waiting")
    press(panel, "Join the line again")
    state(panel, "waiting")


@pytest.mark.parametrize(("terms", "title"), [({"required_tier": 2}, "For members")])
def test_a_refusal_has_words_of_its_own(page: Page, demo: Server, terms: dict[str, object], title: str) -> None:
    panel = visit(page, sale(demo, **terms))
    press(panel, "Buy for")
    refused(panel, title)
    look_at(page, "refused")


def test_a_sale_that_is_not_there_is_said_so(page: Page, demo: Server) -> None:
    page.goto(f"{demo.url}/s/nothing")
    refused(page.locator("#panel"), "There is nothing here")
    look_at(page, "not-found")


def test_a_sale_that_was_closed_is_over(page: Page, demo: Server) -> None:
    store = sale(demo)
    store.act("close")
    panel = visit(page, store)
    expect(panel).to_contain_text("This sale is over.")
    look_at(page, "ended")
