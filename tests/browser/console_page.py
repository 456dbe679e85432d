"""Steps an operator takes in the console."""

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

from browsing import TIMEOUT_MS
from http_sales import Store
from http_serving import SERVICE_KEY, Server
from playwright.sync_api import Page, expect

# Playwright's default of 5 s is too short for a busy machine.
expect.set_options(timeout=TIMEOUT_MS)


def sign_in(page: Page, server: Server, view: str = "sales", key: str = SERVICE_KEY) -> None:
    page.goto(f"{server.url}/console#/{view}")
    # Other tests of this server may have invited operators, who sign in by name.
    by_key, by_name = page.get_by_label("Service key"), page.get_by_role("button", name="Use a service key instead")
    by_key.or_(by_name).wait_for()
    if by_name.is_visible():
        by_name.click()
    by_key.fill(key)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("navigation", name="Console")).to_be_visible()


def watch(page: Page, store: Store) -> None:
    """Sign in and open a sale; returns when the first figures are shown."""
    sign_in(page, store.server, f"sale/{quote(store.sale_id)}")
    expect(page.locator("[data-fresh=true]")).to_be_visible()


def answer(page: Page, action: str) -> None:
    """Answer the confirmation dialog."""
    page.get_by_role("dialog").get_by_role("button", name=action).click()
    expect(page.get_by_role("dialog")).to_be_hidden()


def crowd(store: Store, buyers: int) -> list[int]:
    """Let `buyers` people buy one each; returns the status codes."""

    def buy(number: int) -> int:
        with store.buyer(f"{store.sale_id}-{number}") as buyer:
            return buyer.purchase().status_code

    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(buy, range(buyers)))


def figure(page: Page, place: str) -> str:
    return page.locator(f".stock-figure.at-{place} b").inner_text()
