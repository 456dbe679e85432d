"""Steps in the storefront. The server runs in demo mode: each window is a buyer of its own with play money."""

import re

from browsing import DESKTOP, PHONE, TIMEOUT_MS, assert_accessible, keep
from http_calling import body_of
from http_sales import Store, store_of
from http_serving import Server
from playwright.sync_api import Locator, Page, expect

LINE = {"mode": "fifo", "rate_per_second": 1_000, "pass_seconds": 300}
# The balance that `/demo/identity` gives to each buyer.
PURSE = 50_000
# As a buyer reads it to a person on the phone.
ORDER_NUMBER = re.compile(r"[0-9A-HJKMNP-TV-Z]{4}(-[0-9A-HJKMNP-TV-Z]{4}){2}")
expect.set_options(timeout=TIMEOUT_MS)


def sale(server: Server, **terms: object) -> Store:
    store = store_of(server)
    store.open(**{"name": "Tidewater No. 7", "description": "A vessel.", **terms})
    return store


def visit(page: Page, store: Store) -> Locator:
    """Open the sale; returns the purchase panel."""
    page.goto(f"{store.server.url}/s/{store.sale_id}")
    return page.locator("#panel")


def state(panel: Locator, name: str) -> None:
    """Wait until the purchase is in this state."""
    expect(panel).to_have_class(re.compile(rf"\b{name}\b"))


def press(panel: Locator, label: str) -> None:
    panel.get_by_role("button", name=label).click()


def pause_room(store: Store, *, paused: bool) -> None:
    body_of(store.act("room", paused=paused))


def sell_rest(store: Store) -> None:
    """All available units are sold elsewhere."""
    body_of(store.act("restock", units=-store.show()["available"]))


def look_at(page: Page, name: str) -> None:
    """Check accessibility and overflow in light and dark mode, on desktop and phone, and save screenshots."""
    for scheme, size in (("light", DESKTOP), ("dark", PHONE)):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size(size)  # type: ignore[arg-type]
        keep(page, f"store-{name}-{scheme}")
        assert_accessible(page)
        wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wider <= 0, f"{name} is {wider} px wider than the window"
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(DESKTOP)  # type: ignore[arg-type]
