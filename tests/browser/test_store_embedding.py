"""The example page in docs/EMBED.md."""

import re
from pathlib import Path

from http_serving import Server
from playwright.sync_api import Page, expect
from storefronts import LINE, sale

pytest_plugins = ("http_fixtures", "browser_fixtures", "store_fixtures")

EMBED = Path(__file__).parents[2] / "docs" / "EMBED.md"


def test_the_documented_page_sells(page: Page, demo: Server) -> None:
    store = sale(demo, room=LINE, proof_of_work={"cost": 10})
    found = re.search(r"```html\n(.*?)```", EMBED.read_text(), re.DOTALL)
    assert found is not None
    own = found[1].replace('"drop"', f'"{store.sale_id}"').replace("/login/token", "/demo/identity")
    page.route("**/my-shop", lambda route: route.fulfill(body=own, content_type="text/html; charset=utf-8"))
    page.goto(f"{demo.url}/my-shop")
    page.get_by_role("button", name="Buy").click()
    page.get_by_role("button", name="Pay").click()
    expect(page.locator("#what")).to_have_text(re.compile(r"Yours: ord_[0-9a-f]{32}"))
