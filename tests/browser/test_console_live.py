"""The live view of a sale while a crowd buys, and its controls."""

import re
from typing import Literal

import pytest
from browsing import assert_accessible, keep, window
from console_page import answer, crowd, figure, watch
from http_calling import body_of
from http_sales import Store
from playwright.sync_api import Browser, Page, expect

pytest_plugins = ("http_fixtures", "browser_fixtures")


def test_the_page_follows_a_crowd(page: Page, quick: Store) -> None:
    quick.open(total_units=30, name="Aurora Runner")
    watch(page, quick)
    assert figure(page, "available") == "30"
    answers = crowd(quick, 40)
    assert sorted(set(answers)) == [201, 409]
    expect(page.locator(".stock-figure.at-held b")).to_have_text("30")
    expect(page.locator(".stock-figure.at-available b")).to_have_text("0")
    expect(page.locator(".stock-figure.at-total")).to_contain_text("balanced")
    expect(page.get_by_role("row").filter(has_text="All in carts")).to_contain_text("10")
    expect(page.locator(".view-head .tag")).to_have_text("All in carts")
    assert page.locator("figure canvas").count() == page.locator("figure.chart").count() > 4


def test_a_sale_is_paused_resumed_restocked_and_closed_after_confirmation(page: Page, quick: Store) -> None:
    quick.open(total_units=5)
    watch(page, quick)
    page.get_by_role("button", name="Pause sale").click()
    answer(page, "Cancel")
    assert quick.show()["paused"] is False
    page.get_by_role("button", name="Pause sale").click()
    answer(page, "Pause")
    expect(page.locator(".view-head .tag")).to_have_text("Paused")
    assert quick.show()["paused"] is True
    page.get_by_role("button", name="Resume sale").click()
    expect(page.locator(".view-head .tag")).to_have_text("Open")
    page.get_by_label("Add units").fill("20")
    page.get_by_role("button", name="Restock").click()
    answer(page, "Add")
    expect(page.locator(".stock-figure.at-total b")).to_have_text("25")
    page.get_by_role("button", name="Close sale").click()
    close = page.get_by_role("dialog").get_by_role("button", name="Close sale")
    expect(close).to_be_disabled()
    keep(page, "console-close")
    assert_accessible(page)
    page.get_by_role("dialog").get_by_label(f"Type {quick.sale_id} to confirm").fill(quick.sale_id)
    close.click()
    expect(page.locator(".view-head .tag")).to_have_text("Ended")
    assert quick.show()["state"] == "closed"


def test_the_room_of_a_sale_that_is_over_waits_for_nothing(page: Page, quick: Store) -> None:
    quick.open(total_units=1, room={"mode": "fifo"})
    watch(page, quick)
    body_of(quick.act("restock", units=-1))
    expect(page.locator(".pacing")).to_have_text("Sold out: nobody else is admitted")
    body_of(quick.act("close"))
    expect(page.locator(".pacing")).to_have_text("Ended: nobody else is admitted")


def test_charts_and_events_survive_a_reload(page: Page, quick: Store) -> None:
    quick.open(total_units=30)
    crowd(quick, 12)
    body_of(quick.act("pause"))
    body_of(quick.server.client.post(f"{quick.path}/restock", json={"units": 5}, headers={"Idempotency-Key": "more"}))
    watch(page, quick)
    events = page.locator(".events-of-sale li")
    for shown in (page.get_by_role("button", name="Last 5 minutes"), page.get_by_role("button", name="Whole sale")):
        page.reload()
        shown.click()
        for event in ("Restocked +5 units by the admin key", "Paused by the admin key", "Opened on schedule"):
            expect(events.filter(has_text=event)).to_be_visible()
        # What was counted before the page was opened is in the chart.
        expect(page.locator("figure.chart").first).to_have_attribute("data-highest", re.compile(r"^([1-9]|1[0-2])$"))
    keep(page, "console-history")
    assert_accessible(page)


def test_units_are_added_once_even_if_the_response_is_lost(page: Page, quick: Store) -> None:
    quick.open(total_units=5)
    watch(page, quick)
    page.route("**/restock", lambda route: (route.fetch(), route.abort())[1], times=1)
    page.get_by_label("Add units").fill("20")
    page.get_by_role("button", name="Restock").click()
    answer(page, "Add")
    expect(page.get_by_role("status")).to_contain_text("20 units added")
    assert quick.show()["total_units"] == 25


def test_removing_too_many_units_is_refused_with_a_reason(page: Page, quick: Store) -> None:
    quick.open(total_units=2)
    quick.buy("ada")
    watch(page, quick)
    page.get_by_label("Add units").fill("-2")
    page.get_by_role("button", name="Restock").click()
    answer(page, "Remove")
    expect(page.get_by_role("status")).to_contain_text("1 units are held or sold")
    assert quick.show()["total_units"] == 2


def test_admissions_can_be_paced_paused_and_made_manually(page: Page, quick: Store) -> None:
    quick.open(total_units=10, room={"mode": "fifo", "rate_per_second": 50})
    quick.server.client.post(f"{quick.path}/room", json={"paused": True})
    for number in range(6):
        with quick.buyer(f"in-line-{number}") as buyer:
            assert buyer.client.post(f"{quick.path}/queue", json={}).status_code == 200
    watch(page, quick)
    panel = page.locator("section.panel", has=page.get_by_role("heading", name="Waiting room"))
    expect(panel.locator(".pacing")).to_have_text("Paused: nobody is admitted")
    expect(panel).to_contain_text("0 of 6")
    panel.get_by_label("Admit people now").fill("2")
    panel.get_by_role("button", name="Admit", exact=True).click()
    answer(page, "Admit")
    expect(panel).to_contain_text("2 of 6")
    panel.get_by_label("People per second").fill("7")
    panel.get_by_role("button", name="Set rate").click()
    expect(panel).to_contain_text("7/s")
    panel.get_by_role("button", name="Resume admissions").click()
    expect(panel).to_contain_text("6 of 6")
    keep(page, "console-waiting-room")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible_in_both_modes(browser: Browser, quick: Store, scheme: Literal["light", "dark"]) -> None:
    quick.open(total_units=500, name="Aurora Runner, size 42", room={"mode": "fifo"})
    with window(browser, color_scheme=scheme, viewport={"width": 1600, "height": 1000}) as page:
        watch(page, quick)
        keep(page, f"console-live-{scheme}")
        assert_accessible(page)
        page.get_by_role("link", name="Sales").click()
        expect(page.get_by_role("link", name="Aurora Runner, size 42").first).to_be_visible()
        keep(page, f"console-sales-{scheme}")
        assert_accessible(page)


def test_a_lost_connection_is_shown_and_recovers_by_itself(page: Page, quick: Store) -> None:
    quick.open()
    watch(page, quick)
    page.context.set_offline(True)
    expect(page.get_by_role("alert")).to_contain_text("Connection lost since")
    expect(page.locator("[data-fresh=false]")).to_contain_text("No data since")
    keep(page, "console-lost")
    page.context.set_offline(False)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator("[data-fresh=true]")).to_be_visible()


def test_it_fits_on_a_phone(phone: Page, quick: Store) -> None:
    quick.open()
    watch(phone, quick)
    assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")
    keep(phone, "console-phone")
    assert_accessible(phone)
