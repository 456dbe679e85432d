"""The storefront as people see it: a server in demo mode, where each window is a buyer of its own with play money."""

import re
from typing import Any

from browsing import DESKTOP, PATIENCE_MS, PHONE, assert_accessible, keep
from http_calling import body_of
from http_sales import Store, store_of
from http_serving import Server
from playwright.sync_api import Locator, Page, expect

LINE = {"mode": "fifo", "rate_per_second": 1_000, "pass_seconds": 300}
# What `/demo/identity` gives to each buyer.
PURSE = 50_000
expect.set_options(timeout=PATIENCE_MS)


def sale(server: Server, **terms: object) -> Store:
    store = store_of(server)
    store.open(**{"name": "Tidewater No. 7", "description": "A vessel.", **terms})
    return store


def visit(page: Page, store: Store) -> Locator:
    """The panel, where everything happens."""
    page.goto(f"{store.server.url}/s/{store.sale_id}")
    return page.locator("#panel")


def state(panel: Locator, name: str) -> None:
    """Waits until the purchase is in this state."""
    expect(panel).to_have_class(re.compile(rf"\b{name}\b"))


def press(panel: Locator, label: str) -> None:
    panel.get_by_role("button", name=label).click()


def pause_room(store: Store, *, paused: bool) -> None:
    body_of(store.act("room", paused=paused))


def sell_rest(store: Store) -> None:
    """Somebody else buys all there is, by another way."""
    client = store.server.client
    available = store.show()["available"]
    held: dict[str, Any] = body_of(
        client.post(f"/v1/inventory/{store.sku_id}/reserve", json={"owner_id": "the shop", "quantity": available})
    )
    body_of(client.post(f"/v1/reservations/{held['reservation_id']}/confirm"))


def look_at(page: Page, name: str) -> None:
    """For everyone: readable by light and by dark, on a desk and on a phone. Kept, for people to look at."""
    for scheme, size in (("light", DESKTOP), ("dark", PHONE)):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size(size)  # type: ignore[arg-type]
        keep(page, f"store-{name}-{scheme}")
        assert_accessible(page)
        wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wider <= 0, f"{name} is {wider} px wider than the window"
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(DESKTOP)  # type: ignore[arg-type]
