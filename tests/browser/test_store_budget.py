"""What the storefront costs a visitor, and what a phone shows first: counted in a real browser."""

import re
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from browsing import SMALL, assert_accessible, keep, window
from http_calling import body_of
from http_sales import Store, in_seconds
from http_serving import Server, started
from playwright.sync_api import Browser, Page, expect
from storefronts import LINE, look_at, sale, sell_rest, visit

from quiet_time import QuietTime

pytest_plugins = ("http_fixtures", "browser_fixtures", "store_fixtures")

MAX_REQUESTS, MAX_BYTES = 6, 60_000
# What stands above the button, and could push it down.
TALL = {
    "image_url": "/assets/store/tidewater.svg",
    "description": "A vessel of glazed stoneware, thrown by hand. " * 6,
}
BRAND = {
    "name": "Tide & Co", "logo_url": "/assets/store/tidewater.svg", "accent": "#e8b400", "background": "#fff6e5",
    "message": "Members get free shipping.",
}  # fmt: skip


def test_the_first_visit_takes_six_requests_and_sixty_kilobytes_at_most(page: Page, demo: Server) -> None:
    store = sale(demo, room=LINE, image_url="/assets/store/tidewater.svg")
    cdp = page.context.new_cdp_session(page)
    cdp.send("Network.enable")
    urls, sizes = dict[str, str](), list[float]()
    cdp.on("Network.requestWillBeSent", lambda event: urls.update({event["requestId"]: event["request"]["url"]}))

    def forget_cached(event: Any) -> None:
        """The same picture again, as the tab's icon, does not reach the network."""
        if event.get("response", {"fromDiskCache": True})["fromDiskCache"]:
            urls.pop(event["requestId"])

    cdp.on("Network.requestServedFromCache", forget_cached)
    cdp.on("Network.responseReceived", forget_cached)
    cdp.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    # The last request of a visit. It polls from then on, so the network is never idle for sure.
    with page.expect_response(lambda response: response.url.endswith("/mine")):
        panel = visit(page, store)
    expect(panel.get_by_role("button", name="Join the line")).to_be_visible()
    print(f"{len(urls)} requests, {sum(sizes):.0f} bytes", *urls.values(), sep="\n")
    # Afterwards a signed-in visitor's own purchases are looked for.
    needed = {url for url in urls.values() if not url.endswith(("/demo/identity", "/mine"))}  # A poll counts once.
    assert len(needed) <= MAX_REQUESTS
    assert sum(sizes) <= MAX_BYTES


# Name: latency in ms, bytes per second, and how long the button may take. "Slow 3G" is the browsers' own preset.
# What a machine that runs other tests, too, may add.
BUSY_S = 0.8
NETWORKS = {"400 kbit/s": (400, 400_000 / 8, 2.0), "Slow 3G": (2_000, 50_000, 5.0)}


# Notes when the button is there, by the browser's own clock, in ms since the visit began.
USABLE = """
const look = () => {
  if (document.querySelector("#panel button.main")) usableAt = performance.now();
  else requestAnimationFrame(look);
};
look();
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", list(NETWORKS))
def test_the_page_is_usable_soon_on_a_slow_network(page: Page, demo: Server, name: str) -> None:
    latency, speed, within_s = NETWORKS[name]
    store = sale(demo, room=LINE, image_url="/assets/store/tidewater.svg")
    page.add_init_script(USABLE)
    took = list[float]()
    for _ in range(3):  # The best of three, without the time in which the machine was busy.
        cdp = page.context.new_cdp_session(page)
        cdp.send("Network.enable")
        cdp.send("Network.clearBrowserCache")
        conditions = {"offline": False, "latency": latency, "downloadThroughput": speed, "uploadThroughput": speed}
        cdp.send("Network.emulateNetworkConditions", conditions)
        began, quiet = monotonic(), QuietTime()
        panel = visit(page, store)
        expect(panel.get_by_role("button", name="Join the line")).to_be_visible()
        stalled_s = monotonic() - began - quiet.seconds
        took.append(page.evaluate("usableAt") / 1000 - stalled_s)
        page.goto("about:blank")
    print(f"{name}: {min(took):.1f} s")
    assert min(took) < within_s + BUSY_S


def test_a_second_visit_loads_neither_the_script_nor_the_styles_again(page: Page, demo: Server) -> None:
    store = sale(demo, room=LINE)
    visit(page, store)
    expect(page.get_by_role("button", name="Join the line")).to_be_visible()  # So both bundles are loaded and run.
    page.goto("about:blank")
    loaded = dict[str, bool]()
    cdp = page.context.new_cdp_session(page)
    cdp.send("Network.enable")
    cdp.on("Network.responseReceived", lambda event: loaded.update(_from_cache(event["response"])))
    visit(page, store)
    expect(page.get_by_role("button", name="Join the line")).to_be_visible()
    bundles = {url: is_cached for url, is_cached in loaded.items() if "/assets/bundle/" in url}
    assert list(bundles.values()) == [True, True]


def _from_cache(response: dict[str, Any]) -> dict[str, bool]:
    return {response["url"]: response["fromDiskCache"] or response["encodedDataLength"] == 0}


@pytest.mark.parametrize("terms", [{}, {"starts_at": 3_600}, {"starts_at": 300_000}], ids=["open", "soon", "in days"])
def test_on_a_phone_the_button_is_in_sight_without_scrolling(
    browser: Browser, demo: Server, terms: dict[str, Any]
) -> None:
    given = {name: in_seconds(value) for name, value in terms.items()}
    store = sale(demo, room=LINE, **TALL, **given)
    context = browser.new_context(viewport=SMALL, is_mobile=True, has_touch=True, locale="en-GB")  # type: ignore[arg-type]
    page = context.new_page()
    button = visit(page, store).get_by_role("button", name="Join the line")
    expect(button).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollWidth") <= SMALL["width"]
    keep(page, f"store-small-{'upcoming' if given else 'open'}")
    context.close()


def close(store: Store) -> None:
    body_of(store.act("close"))


def pause(store: Store) -> None:
    body_of(store.act("pause"))


def hold_all(store: Store) -> None:
    store.buy("somebody", 3)


STATES: dict[str, tuple[dict[str, Any], Any, str, str | None]] = {
    "upcoming, no line": ({"starts_at": 3_600}, None, "You can buy as soon as it opens", None),
    "upcoming": ({"starts_at": 3_600, "room": LINE}, None, "Join now to save your place", "Join the line"),
    "paused, no line": ({}, pause, "The shop has paused the sale. This page updates", None),
    "paused": ({"room": LINE}, pause, "The shop has paused the sale. You can still join", "Join the line"),
    "sold out": ({}, sell_rest, "Every unit has been sold", None),
    "ended": ({}, close, "This sale has ended", None),
    "all held, no line": (
        {"per_buyer_limit": 3},
        hold_all,
        "All are in carts. We put the next",
        "Get the next free one",
    ),
    "external": ({"payment": "external"}, None, "You pay at the shop", "Buy for €49.99"),
}


@pytest.mark.parametrize("name", list(STATES))
def test_every_state_of_a_sale_has_its_sentence_and_no_dead_button(page: Page, demo: Server, name: str) -> None:
    terms, change, sentence, button = STATES[name]
    given = {key: in_seconds(value) if key == "starts_at" else value for key, value in terms.items()}
    store = sale(demo, **TALL, **given)
    if change is not None:
        change(store)
    page.set_viewport_size(SMALL)  # type: ignore[arg-type]
    panel = visit(page, store)
    expect(panel).to_contain_text(sentence)
    buttons = panel.get_by_role("button")
    expect(buttons).to_have_count(0 if button is None else 1)
    if button is not None:
        expect(buttons).to_have_text(button)
        expect(buttons).to_be_enabled()
        expect(buttons).to_be_in_viewport(ratio=1)
    look_at(page, f"state-{name.replace(', ', '-').replace(' ', '-')}")


def test_the_page_looks_like_the_shops_and_can_be_read(page: Page, demo: Server) -> None:
    """The accent is too light for text: it is darkened until it can be read. axe checks the contrast."""
    store = sale(demo, room=LINE, brand=BRAND, locale="de")
    visit(page, store)
    expect(page.get_by_role("button", name="Anstellen")).to_be_visible()
    expect(page.locator("header")).to_contain_text("Tide & Co")
    expect(page.get_by_text("Members get free shipping.")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 246, 229)"
    expect(page.locator("html")).to_have_attribute("lang", "de")
    look_at(page, "brand")


def test_the_front_page_leads_to_the_sales(page: Page, demo: Server) -> None:
    store = sale(demo, room=LINE, name="Front page vessel")
    link = page.get_by_role("link", name=re.compile("Front page vessel"))
    page.goto(demo.url)
    while not link.count():
        page.reload()
    expect(link).to_contain_text("€49.99")
    assert_accessible(page)
    keep(page, "front")
    link.click()
    expect(page).to_have_url(f"{demo.url}/s/{store.sale_id}")


def test_a_sale_that_does_not_exist_says_so_and_leads_on(page: Page, demo: Server) -> None:
    answer = page.goto(f"{demo.url}/s/nope")
    assert answer is not None
    assert answer.status == 404
    assert_accessible(page)
    keep(page, "not-found")
    page.get_by_role("link", name="See all sales").click()
    expect(page.get_by_role("heading", name="On sale")).to_be_visible()


def test_a_link_that_ends_messages_and_is_not_whole_says_so(page: Page, demo: Server) -> None:
    page.goto(f"{demo.url}/unsubscribe/nope")
    expect(page.get_by_role("heading", name="Link not valid")).to_be_visible()
    assert_accessible(page)
    keep(page, "unsubscribe")


def test_the_front_page_speaks_the_visitors_language_and_tells_their_time(browser: Browser, tmp_path: Path) -> None:
    with started(tmp_path) as server, window(browser, locale="de-DE", timezone_id="Europe/Berlin") as page:
        sale(server, name="Bald", starts_at="2040-01-02T23:30:00Z")
        page.goto(server.url)
        row = page.get_by_role("link", name="Bald")
        expect(page.get_by_role("heading", name="Im Verkauf")).to_be_visible()
        expect(row).to_contain_text("Start am Dienstag, 3. Januar um 00:30 Uhr")
        expect(row).to_contain_text("49,99\xa0€")
        assert_accessible(page)
