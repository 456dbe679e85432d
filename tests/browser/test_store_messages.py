"""Told the truth: in line a buyer asks for messages, and a sold-out page says how it went."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from browsing import SMALL, assert_accessible, keep, window
from http_calling import eventually
from http_rooms import person
from http_sales import Store, body_of
from http_serving import Server, started
from playwright.sync_api import Browser, Locator, expect
from storefronts import LINE, look_at, pause_room, press, sale, state, visit
from test_http_mail import Receiver, receiving

from forking import HOLDFAST

pytest_plugins = ("http_fixtures", "browser_fixtures", "store_fixtures")


@pytest.fixture(scope="module")
def mailing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Receiver]]:
    """A demo server that sends mail."""
    with receiving() as (got, port):
        settings = {"SMTP_URL": f"smtp://127.0.0.1:{port}"}
        command = (*HOLDFAST, "demo")
        with started(tmp_path_factory.mktemp("mail"), "--no-crowd", command=command, settings=settings) as server:
            yield server, got


def buy_all(store: Store, *names: str) -> None:
    """Their turn comes, and each buys one."""
    with ExitStack() as stack:
        people = [stack.enter_context(person(store, name)) for name in names]
        for one in people:
            body_of(one.join())
        pause_room(store, paused=False)
        for one in people:
            held = body_of(one.buy(one.await_pass()), 201)["reservation_id"]
            assert store.server.client.post(f"/v1/reservations/{held}/confirm").status_code == 200


def fact(panel: Locator, name: str) -> Locator:
    return panel.locator(".facts > div", has_text=name).locator("dd")


@pytest.mark.slow
def test_in_line_a_buyer_asks_to_be_told_by_mail_and_is(browser: Browser, mailing: tuple[Server, Receiver]) -> None:
    server, got = mailing
    store = sale(server, room=LINE)
    pause_room(store, paused=True)
    with window(browser, viewport=SMALL) as page:
        panel = visit(page, store)
        press(panel, "Join the line")
        state(panel, "waiting")
        press(panel, "Tell me when it is my turn")
        expect(panel.get_by_label("Your email address")).to_be_focused()
        keep(page, "store-tell-me-small")
        look_at(page, "tell-me")
        panel.get_by_label("Your email address").fill("ada@example.com")
        press(panel, "Tell me")
        expect(panel).to_contain_text("We will write to ada@example.com when it is your turn.")
        look_at(page, "told")
    pause_room(store, paused=False)
    eventually(lambda: "It is your turn: Tidewater No. 7" in got.to("ada"))


@pytest.mark.slow
def test_a_sold_out_page_says_how_it_went_and_offers_word_of_the_next(
    browser: Browser, mailing: tuple[Server, Receiver]
) -> None:
    store = sale(mailing[0], total_units=2, room=LINE, payment="external")
    pause_room(store, paused=True)
    with ExitStack() as stack:
        for name in ("ada", "bob"):
            body_of(stack.enter_context(person(store, name)).join())
        page = stack.enter_context(window(browser, viewport=SMALL))
        panel = visit(page, store)
        press(panel, "Join the line")
        state(panel, "waiting")
        expect(fact(panel, "Your place")).to_have_text("3")
        buy_all(store, "ada", "bob")
        state(panel, "refused")
        _tells_how_it_went(panel)
        keep(page, "store-sold-out-story-small")
        look_at(page, "sold-out-story")
        page.reload()
        state(panel, "refused")
        _tells_how_it_went(panel)
        press(panel, "Tell me about the next sale")
        panel.get_by_label("Your email address").fill("eve@example.com")
        keep(page, "store-tell-next")
        press(panel, "Tell me")
        expect(panel).to_contain_text("We will write to eve@example.com about the next sale.")
        look_at(page, "told-next")
        press(panel, "Stop all messages")
        expect(panel.get_by_label("Your email address")).to_be_visible()
        stranger = stack.enter_context(window(browser, viewport=SMALL, locale="de-DE"))
        panel = visit(stranger, store)
        expect(panel).to_contain_text("verkauft in")
        expect(fact(panel, "Ihr Platz")).to_have_count(0)
        keep(stranger, "store-sold-out-stranger")
        assert_accessible(stranger)


def _tells_how_it_went(panel: Locator) -> None:
    expect(panel.locator(".ahead b")).to_have_text("2")
    expect(panel.locator(".ahead span")).to_contain_text("sold in")
    expect(fact(panel, "Wanted one")).to_have_text("3")
    expect(fact(panel, "Last served")).to_have_text("2")
    expect(fact(panel, "Your place")).to_have_text("3")
    expect(panel).to_contain_text("You were the next in line.")
