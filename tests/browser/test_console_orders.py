"""The console's orders: search, refund with a reason, mark as sent, export; and going anywhere by typing."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import SMALL, assert_accessible, keep, window
from console_page import sign_in
from http_calling import eventually
from http_sales import Store, body_of, store_of
from http_serving import Server
from playwright.sync_api import Browser, Page, expect

pytest_plugins = ("http_fixtures", "browser_fixtures")


@pytest.fixture(scope="module")
def store(embedded: Server) -> Store:
    """With three orders; one buyer has a name that a spreadsheet would take for a formula."""
    store = store_of(embedded)
    store.open(payment="wallet", checkout="instant", total_units=3)
    for buyer_id in ("ada", "=bob", "eve"):
        credit = {"amount": 10_000, "currency": "EUR", "idempotency_key": store.sale_id}
        body_of(embedded.client.post(f"/v1/wallets/{buyer_id}/credit", json=credit))
        store.buy(buyer_id)
    eventually(lambda: len(_orders(store, "confirmed")) == 3)
    return store


def _orders(store: Store, status: str) -> list[dict[str, object]]:
    query = {"sale_id": store.sale_id, "status": status}
    data: list[dict[str, object]] = body_of(store.server.client.get("/v1/orders", params=query))["data"]
    return data


@pytest.fixture
def orders(browser: Browser, store: Store) -> Iterator[Page]:
    with window(browser) as page:
        sign_in(page, store.server, f"orders/of/{store.sale_id}")
        expect(page.locator("tbody tr")).to_have_count(3)
        yield page


def test_a_row_leads_to_its_buyer_by_click_and_keyboard_and_the_buyer_to_the_order(orders: Page, store: Store) -> None:
    row = orders.locator("tbody tr", has_text="eve")
    row.locator("time").click(force=True)  # By the mouse, at the place where the time is shown.
    expect(orders.get_by_role("heading", name="Buyer eve")).to_be_visible()
    order = orders.locator(".card.order", has_text=store.sale_id)
    order.locator("b").click(force=True)
    expect(orders.get_by_label("Order number or ID")).to_have_value(re.compile("^ord_"))
    expect(orders.locator("tbody tr")).to_have_count(1)
    orders.get_by_role("button", name="Search").focus()
    orders.keyboard.press("Tab")
    expect(row.get_by_role("link", name="eve")).to_be_focused()
    keep(orders, "console-order-row-focused")
    orders.keyboard.press("Enter")
    expect(orders.get_by_role("heading", name="Buyer eve")).to_be_visible()
    order.get_by_role("link", name=store.sale_id).click()
    expect(orders).to_have_url(re.compile(f"/sale/{store.sale_id}"))


def test_on_a_phone_the_table_scrolls_and_not_the_page(browser: Browser, store: Store) -> None:
    with window(browser, viewport=SMALL) as page:
        sign_in(page, store.server, f"orders/of/{store.sale_id}")
        expect(page.locator("tbody tr")).to_have_count(3)
        assert page.evaluate("document.documentElement.scrollWidth") <= SMALL["width"]
        keep(page, "console-orders-phone")


def test_an_order_is_found_sent_and_refunded_with_a_reason(orders: Page, store: Store) -> None:
    assert_accessible(orders)
    keep(orders, "console-orders")
    orders.get_by_label("Buyer ID").fill("ada")
    orders.get_by_role("button", name="Search").click()
    expect(orders.locator("tbody tr")).to_have_count(1)
    row = orders.locator("tbody tr")
    row.get_by_role("button", name="Mark as sent").click()
    orders.get_by_label("Tracking number").fill("TRACK-1")
    orders.get_by_role("dialog").get_by_role("button", name="Mark as sent").click()
    expect(row).to_contain_text("fulfilled")
    expect(row).to_contain_text("TRACK-1")
    row.get_by_role("button", name="Refund").click()
    expect(orders.get_by_role("dialog")).to_contain_text("can be refunded to ada")
    assert_accessible(orders)
    keep(orders, "console-refund")
    orders.get_by_label("Reason").fill("Arrived broken")
    orders.get_by_role("dialog").get_by_role("button", name="Refund").click()
    expect(row).to_contain_text("refunded")
    expect(row.get_by_role("button", name="Refund")).to_have_count(0)
    assert [order["buyer_id"] for order in _orders(store, "refunded")] == ["ada"]


def test_orders_are_exported_as_they_are_filtered(orders: Page, tmp_path: Path) -> None:
    with orders.expect_download() as downloading:
        orders.get_by_role("button", name="Export as CSV").click()
    downloading.value.save_as(tmp_path / "orders.csv")
    with (tmp_path / "orders.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted(row["buyer_id"] for row in rows) == ["'=bob", "ada", "eve"]
    assert all(row["number"] and row["order_id"].startswith("ord_") for row in rows)


# The next key comes after the microtasks of this one, but possibly before the next frame.
FOCUSED_BY_THE_NEXT_KEY = """async () => {
  dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true }));
  await null;
  return document.activeElement.getAttribute("role");
}"""


def test_no_letter_is_lost_while_the_palette_opens(orders: Page) -> None:
    assert orders.evaluate(FOCUSED_BY_THE_NEXT_KEY) == "combobox"


def test_a_few_letters_lead_anywhere(orders: Page, store: Store) -> None:
    orders.keyboard.press("Control+k")
    expect(orders.get_by_role("dialog").get_by_role("option", name="Health")).to_be_visible()
    assert_accessible(orders)
    orders.keyboard.type(store.sale_id)
    expect(orders.get_by_role("dialog").get_by_role("option").first).to_contain_text(f"sale {store.sale_id}")
    keep(orders, "console-palette")
    orders.keyboard.press("Enter")
    expect(orders.get_by_role("link", name="Storefront")).to_have_attribute("href", f"/s/{store.sale_id}")
    orders.keyboard.press("Control+k")
    orders.keyboard.type("eve")
    orders.keyboard.press("ArrowUp")
    orders.keyboard.press("Enter")
    expect(orders.get_by_role("heading", level=1, name="Buyer eve")).to_be_visible()
