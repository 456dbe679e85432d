"""A purchase belongs to the buyer, not to the browser: a second device and a second tab find it."""

import re

import pytest
from browsing import window
from http_calling import eventually
from http_sales import body_of
from http_serving import Server
from playwright.sync_api import Browser, Page, expect
from storefronts import LINE, look_at, press, sale, sell_rest, state, visit

pytest_plugins = ("http_fixtures", "browser_fixtures", "store_fixtures")


def clear_storage(page: Page) -> None:
    page.evaluate("localStorage.clear()")


@pytest.mark.parametrize("room", [{"mode": "off"}, LINE], ids=["no line", "line"])
def test_a_second_device_finds_the_cart_and_pays(
    page: Page, browser: Browser, demo: Server, room: dict[str, object]
) -> None:
    store = sale(demo, room=room)
    panel = visit(page, store)
    press(panel, "Buy for" if room["mode"] == "off" else "Join the line")
    state(panel, "cart")
    with window(browser) as other:
        other.context.add_cookies(page.context.cookies())  # type: ignore[arg-type]
        there = visit(other, store)
        expect(there.get_by_text(re.compile(r"One is in your cart until \d\d:\d\d"))).to_be_visible()
        look_at(other, f"continue-{room['mode']}")
        press(there, "Continue to payment")
        state(there, "cart")
        press(there, "Pay")
        state(there, "confirmed")
    assert store.counts() == (2, 0, 1)


def test_a_cart_is_found_after_the_storage_was_cleared_though_nothing_is_left_to_buy(page: Page, demo: Server) -> None:
    store = sale(demo, total_units=1)
    panel = visit(page, store)
    press(panel, "Buy for")
    state(panel, "cart")
    clear_storage(page)
    page.reload()
    press(panel, "Continue to payment")
    state(panel, "cart")
    press(panel, "Pay")
    state(panel, "confirmed")


def test_a_second_device_that_buys_at_the_limit_gets_the_cart(page: Page, browser: Browser, demo: Server) -> None:
    store = sale(demo)
    panel = visit(page, store)
    press(panel, "Buy for")
    state(panel, "cart")
    with window(browser) as other:
        other.context.add_cookies(page.context.cookies())  # type: ignore[arg-type]
        other.route("**/mine", lambda route: route.abort())
        there = visit(other, store)
        press(there, "Buy for")
        state(there, "cart")
    assert store.counts() == (2, 1, 0)


@pytest.mark.parametrize("room", [{"mode": "off"}, LINE], ids=["no line", "line"])
def test_a_second_device_shows_the_order_also_when_all_is_sold(
    page: Page, browser: Browser, demo: Server, room: dict[str, object]
) -> None:
    store = sale(demo, room=room)
    panel = visit(page, store)
    press(panel, "Buy for" if room["mode"] == "off" else "Join the line")
    press(panel, "Pay")
    state(panel, "confirmed")
    number = panel.locator("dd.code").inner_text()
    with window(browser) as other:
        other.context.add_cookies(page.context.cookies())  # type: ignore[arg-type]
        there = visit(other, store)
        expect(there.get_by_text("You have an order in this sale:")).to_be_visible()
        expect(there.get_by_role("button")).to_have_count(1)
        look_at(other, f"bought-{room['mode']}")
        sell_rest(store)
        other.reload()
        expect(other.locator(".stock")).to_have_text("Sold out")
        press(there, "Show your order")
        state(there, "confirmed")
        expect(there).to_contain_text(number)


def test_a_buyer_who_may_buy_more_sees_the_order_and_is_offered_another(page: Page, demo: Server) -> None:
    store = sale(demo, per_buyer_limit=2)
    panel = visit(page, store)
    press(panel, "Buy for")
    press(panel, "Pay")
    state(panel, "confirmed")
    clear_storage(page)
    page.reload()
    expect(panel.get_by_role("button", name="Show your order")).to_be_visible()
    press(panel, "Buy for")
    state(panel, "cart")


def test_a_cart_that_ended_on_another_device_is_looked_up_when_the_buyer_comes_back(
    page: Page, browser: Browser, demo: Server
) -> None:
    store = sale(demo)
    panel = visit(page, store)
    press(panel, "Buy for")
    state(panel, "cart")
    with window(browser) as other:
        other.context.add_cookies(page.context.cookies())  # type: ignore[arg-type]
        there = visit(other, store)
        press(there, "Continue to payment")
        press(there, "Pay")
        state(there, "confirmed")
    state(panel, "cart")
    page.evaluate("dispatchEvent(new Event('focus'))")
    state(panel, "confirmed")


@pytest.mark.slow
def test_tabs_agree(page: Page, demo: Server) -> None:
    store = sale(demo)
    first = visit(page, store)
    second_tab = page.context.new_page()
    second = visit(second_tab, store)
    expect(second.get_by_role("button", name="Buy for")).to_be_enabled()
    press(first, "Buy for")
    state(first, "cart")
    state(second, "cart")
    press(second, "Pay")
    state(second, "confirmed")
    state(first, "confirmed")
    assert store.counts() == (2, 0, 1)


@pytest.mark.slow
def test_a_cart_emptied_in_one_tab_is_empty_in_the_other(page: Page, demo: Server) -> None:
    store = sale(demo)
    first = visit(page, store)
    second = visit(page.context.new_page(), store)
    expect(second.get_by_role("button", name="Buy for")).to_be_enabled()
    press(first, "Buy for")
    state(second, "cart")
    press(second, "Remove from cart")
    second.get_by_role("button", name="Remove", exact=True).click()
    state(first, "refused")
    assert store.counts() == (3, 0, 0)


def test_a_sent_order_shows_its_tracking_number_and_a_refunded_one_is_not_the_buyers(page: Page, demo: Server) -> None:
    store = sale(demo)
    panel = visit(page, store)
    press(panel, "Buy for")
    press(panel, "Pay")
    state(panel, "confirmed")
    [order] = body_of(demo.client.get("/v1/orders", params={"sale_id": store.sale_id}))["data"]
    path, key = f"/v1/orders/{order['order_id']}", {"Idempotency-Key": store.sale_id}
    body_of(demo.client.post(f"{path}/fulfil", json={"tracking": "TRACK-1"}, headers=key))
    page.reload()
    expect(panel).to_contain_text("Your order has been sent.")
    expect(panel).to_contain_text("Tracking numberTRACK-1")
    look_at(page, "sent")
    body_of(demo.client.post(f"{path}/refund", json={"amount": 1_000}, headers=key))
    eventually(lambda: body_of(demo.client.get(path))["refunded_amount"] == 1_000)
    page.reload()
    expect(panel).to_contain_text("Refunded€10.00")
    expect(panel).to_contain_text("Your order has been sent.")
    body_of(demo.client.post(f"{path}/refund", json={}, headers={"Idempotency-Key": f"{store.sale_id}-rest"}))
    eventually(lambda: body_of(demo.client.get(path))["status"] == "refunded")
    page.reload()
    expect(panel.get_by_role("heading", name="Refunded")).to_be_visible()
    expect(panel).to_contain_text("This order was refunded.")
    look_at(page, "refunded")
