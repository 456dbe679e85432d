"""The API reference in a browser."""

from browsing import assert_accessible, keep
from http_serving import Server
from playwright.sync_api import Page, expect

pytest_plugins = ("http_fixtures", "browser_fixtures")


def test_the_reference_is_styled_and_accessible(page: Page, embedded: Server) -> None:
    page.goto(f"{embedded.url}/docs")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert page.evaluate("document.styleSheets[0].cssRules.length") > 0
    keep(page, "docs")
    assert_accessible(page)
