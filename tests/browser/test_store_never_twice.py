"""A buyer buys once, whatever response is lost and however many windows are open."""

import json

import pytest
from http_serving import Server
from playwright.sync_api import Page, Route
from storefronts import LINE, pause_room, sale

pytest_plugins = ("http_fixtures", "browser_fixtures", "store_fixtures")

INSTANT = {"checkout": "instant", "per_buyer_limit": None}


def begin(page: Page, server: Server, sale_id: str) -> None:
    page.goto(f"{server.url}/s/{sale_id}")
    page.evaluate(
        """async (sale) => {
          const { joinAndBuy } = await import("/assets/holdfast.js");
          const { token } = await (await fetch("/demo/identity")).json();
          window.buying = joinAndBuy(sale, { token, onState: ({ name }) => (window.seen = name) });
        }""",
        sale_id,
    )


def until(page: Page, state: str) -> None:
    page.wait_for_function("(state) => window.seen === state", arg=state)


def answer_first_purchase(page: Page, status: int, body: object) -> None:
    """Let the purchase reach the server, and replace its response, as a proxy might."""

    def replace(route: Route) -> None:
        route.fetch()
        route.fulfill(status=status, body=json.dumps(body), content_type="application/json")

    page.route("**/purchase", replace, times=1)


@pytest.mark.parametrize(("status", "body"), [(504, {"message": "Endpoint request timed out"}), (200, None)])
def test_a_lost_response_is_retried(page: Page, demo: Server, status: int, body: object) -> None:
    store = sale(demo, **INSTANT)
    if body is None:
        page.route("**/purchase", lambda route: (route.fetch(), route.fulfill(status=200, body='{"reser'))[1], times=1)
    else:
        answer_first_purchase(page, status, body)
    begin(page, demo, store.sale_id)
    until(page, "confirmed")
    assert store.counts() == (2, 0, 1)


def test_a_retry_after_a_refusal_by_a_proxy_finds_what_was_bought(page: Page, demo: Server) -> None:
    store = sale(demo, **INSTANT)
    answer_first_purchase(page, 403, {"reason": "forbidden"})
    begin(page, demo, store.sale_id)
    until(page, "refused")
    page.evaluate("window.buying.again()")
    until(page, "confirmed")
    assert store.counts() == (2, 0, 1)


def test_two_windows_of_one_buyer_buy_once(page: Page, demo: Server) -> None:
    store = sale(demo, room=LINE, **INSTANT)
    pause_room(store, paused=True)
    windows = [page, page.context.new_page()]
    for window in windows:
        begin(window, demo, store.sale_id)
        until(window, "waiting")
    pause_room(store, paused=False)
    for window in windows:
        until(window, "confirmed")
    assert store.counts() == (2, 0, 1)


def test_a_silent_event_stream_times_out(page: Page, demo: Server) -> None:
    store = sale(demo, **INSTANT)
    page.clock.install()
    with page.expect_request("**/events"):
        page.route("**/events", lambda _route: None)
        begin(page, demo, store.sale_id)
    until(page, "paying")
    page.clock.fast_forward(30_000)
    until(page, "confirmed")
