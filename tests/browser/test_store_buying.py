"""From the product page to the order, in a real browser."""

import pytest
from browsing import window
from http_calling import eventually
from http_rooms import person
from http_sales import in_seconds
from http_serving import Server
from playwright.sync_api import Browser, Page, Route, expect
from storefronts import LINE, look_at, pause_room, press, sale, state, visit

pytest_plugins = ("http_fixtures", "browser_fixtures", "store_fixtures")


def test_a_buyer_proves_work_where_there_is_no_line(page: Page, demo: Server) -> None:
    store = sale(demo, proof_of_work={"cost": 40})
    panel = visit(page, store)
    press(panel, "Buy for")
    press(panel, "Pay")
    state(panel, "confirmed")


@pytest.mark.daily
def test_a_buyer_goes_through_line_proof_of_work_and_cart_to_an_order(page: Page, demo: Server) -> None:
    store = sale(demo, room=LINE, proof_of_work={"cost": 40})
    panel = visit(page, store)
    press(panel, "Join the line")
    state(panel, "cart")
    look_at(page, "cart")
    press(panel, "Add 1 minute")
    expect(panel.get_by_role("button", name="Pay")).to_be_enabled()
    press(panel, "Pay")
    state(panel, "confirmed")
    expect(panel.get_by_text("Order placed")).to_be_visible()
    look_at(page, "confirmed")
    panel.get_by_text("Receipt", exact=True).click()
    expect(panel.get_by_role("button", name="Copy receipt")).to_be_visible()
    eventually(lambda: store.counts() == (2, 0, 1))
    page.reload()
    state(panel, "confirmed")


def test_an_arrival_that_is_not_merged_yet_says_so_and_the_worst_odds_are_not_zero(page: Page, demo: Server) -> None:
    """As while the database is away, and then with a place far behind."""
    store = sale(demo, room=LINE)
    pause_room(store, paused=True)
    unknown: dict[str, object] = {
        "provisional": True,
        "position": None,
        "ahead": None,
        "odds": None,
        "eta_seconds": None,
    }
    told: list[dict[str, object]] = [unknown]

    def answer(route: Route) -> None:
        real = route.fetch()
        route.fulfill(response=real, json=real.json() | told[0])

    for path in ("queue", "queue/status"):
        page.route(f"**/v1/sales/*/{path}", answer)
    panel = visit(page, store)
    press(panel, "Join the line")
    expect(panel.get_by_role("heading", name="Your arrival is saved")).to_be_visible()
    look_at(page, "arrived")
    told[0] = {"odds": 0.0, "likely_sold_out": True}
    expect(panel).to_contain_text("< 1%")
    expect(panel).to_contain_text("This will likely sell out before your turn.")
    pause_room(store, paused=False)
    state(panel, "cart")


def test_a_reload_in_line_keeps_the_place(page: Page, demo: Server) -> None:
    store = sale(demo, room=LINE)
    pause_room(store, paused=True)
    for name in ("ann", "ben", "cas"):
        with person(store, name) as other:
            other.join()
    panel = visit(page, store)
    press(panel, "Join the line")
    state(panel, "waiting")
    expect(panel).to_contain_text("3 people ahead of you")
    # No odds are made up from nothing.
    expect(panel).to_contain_text("3 units, 3 before you")
    look_at(page, "waiting")
    page.reload()
    state(panel, "waiting")
    expect(panel).to_contain_text("3 people ahead of you")
    store.act("restock", units=10)
    pause_room(store, paused=False)
    state(panel, "cart")


def test_a_lost_connection_recovers_without_losing_the_place(page: Page, demo: Server) -> None:
    store = sale(demo, room=LINE)
    pause_room(store, paused=True)
    panel = visit(page, store)
    press(panel, "Join the line")
    state(panel, "waiting")
    page.context.set_offline(offline=True)
    expect(panel).to_contain_text("No connection")
    pause_room(store, paused=False)
    page.context.set_offline(offline=False)
    state(panel, "cart")


def test_a_purchase_works_with_the_keyboard_alone(page: Page, demo: Server) -> None:
    store = sale(demo)
    panel = visit(page, store)
    expect(panel.get_by_role("button", name="Buy for €49.99")).to_be_enabled()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to purchase")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    state(panel, "cart")
    expect(panel.get_by_role("heading", name="In your cart")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    state(panel, "confirmed")
    expect(panel.get_by_role("heading", name="yours")).to_be_focused()


def test_the_language_follows_the_browser_and_can_be_changed(browser: Browser, demo: Server) -> None:
    store = sale(demo, room=LINE)
    pause_room(store, paused=True)
    with window(browser, locale="de-DE") as page:
        panel = visit(page, store)
        expect(page.locator(".price")).to_contain_text("49,99 €")
        press(panel, "Anstellen")
        state(panel, "waiting")
        look_at(page, "german")
        assert page.evaluate("document.documentElement.lang") == "de"
        page.get_by_role("button", name="English").click()
        expect(panel).to_contain_text("You are next")
        page.reload()
        expect(panel).to_contain_text("You are next")


def test_a_script_in_a_products_name_stays_text(page: Page, demo: Server) -> None:
    name = "<script>document.title='taken'</script><img src=x onerror=alert(1)>"
    store = sale(demo, name=name, description=name)
    visit(page, store)
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    assert page.evaluate("document.querySelectorAll('main script, main img').length") == 0
    expect(page).to_have_title(name)


def test_the_pay_button_is_visible_on_a_phone_without_scrolling(phone: Page, demo: Server) -> None:
    store = sale(demo, hold_seconds=600, max_hold_seconds=630)
    panel = visit(phone, store)
    phone.get_by_role("button", name="Buy for").tap()
    state(panel, "cart")
    box = panel.get_by_role("button", name="Pay").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= phone.viewport_size["height"]  # type: ignore[index]
    # The button to add time knows how much there is to add.
    panel.get_by_role("button", name="Add 30 s").tap()
    expect(panel).to_contain_text("Maximum hold time reached")
    expect(panel.get_by_role("button", name="Add")).to_have_count(0)


def test_a_lottery_is_announced_before_and_drawn_at_the_opening(page: Page, demo: Server) -> None:
    store = sale(demo, room=LINE | {"mode": "lottery"}, starts_at=in_seconds(3_600))
    panel = visit(page, store)
    expect(panel.get_by_role("timer")).to_be_visible()
    look_at(page, "upcoming")
    press(panel, "Join the line")
    expect(panel).to_contain_text("Places are drawn when the sale opens")
    look_at(page, "lottery")
    store.start_soon()
    page.reload()
    state(panel, "cart")


def test_another_buyer_in_the_same_browser_starts_anew(page: Page, demo: Server) -> None:
    store = sale(demo)
    panel = visit(page, store)
    press(panel, "Buy for")
    state(panel, "cart")
    page.context.clear_cookies()
    page.reload()
    expect(panel.get_by_role("button", name="Buy for")).to_be_enabled()
    assert store.counts() == (2, 1, 0)
