"""The page `/simulation`: a small run in a browser, with every fault, on a real server."""

from collections.abc import Iterator
from functools import partial

import httpx
import pytest
from browsing import PHONE, assert_accessible, keep, window
from http_calling import eventually
from http_serving import Server, started
from playwright.sync_api import Browser, Page, expect

from forking import HOLDFAST

pytest_plugins = ("http_fixtures", "browser_fixtures")

# Starting a server and verifying its ledger take a while on a busy machine.
RUN_MS = 240_000
UNITS, USERS = 150, 400


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("demo")
    with started(directory, "--no-crowd", command=(*HOLDFAST, "demo")) as server:
        yield server
    # Neither a traceback nor a warning.
    assert (directory / "data" / "demo-simulation.log").read_text().count("\n") == 1


@pytest.fixture
def address(demo: Server) -> str:
    """As the demo's own pages link to it."""
    found = httpx.get(f"{demo.url}/store/config.json", trust_env=False).json()["simulation_url"]
    assert f'href="{found}"' in httpx.get(f"{demo.url}/", trust_env=False).text
    eventually(partial(_answers, found), within_s=60)
    return str(found)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def set_slider(page: Page, label: str, value: int) -> None:
    page.get_by_label(label, exact=True).fill(str(value))


def start(page: Page, address: str, engine: str) -> None:
    page.goto(address)
    page.get_by_role("radio", name=engine).check()
    for label, value in (("Buyers", USERS), ("Units", UNITS), ("All arrive within", 12)):
        set_slider(page, label, value)
    page.get_by_role("button", name="Start", exact=False).click()
    expect(page.locator("[data-phase=selling]")).to_be_visible(timeout=RUN_MS)


def finish(page: Page) -> None:
    expect(page.locator("[data-phase=done]")).to_be_visible(timeout=RUN_MS)
    expect(page.locator("[data-verdict=ok]")).to_contain_text("Verified: nothing went wrong")
    expect(page.locator("[data-shop=holdfast] .value")).to_contain_text(f"{UNITS} sold of {UNITS}")
    expect(page.locator("[data-shop=holdfast]")).not_to_contain_text("charged more than once")


def sold_of(page: Page, shop: str) -> int:
    return int(page.locator(f"[data-shop={shop}] .value b").inner_text().replace(",", ""))


@pytest.mark.slow
def test_holdfast_sells_what_there_is_whatever_is_done_to_it(page: Page, address: str) -> None:
    start(page, address, "Redis + PostgreSQL")
    duplicate = page.get_by_role("button", name="Duplicate every click")
    duplicate.click()
    for fault in ("Kill Redis", "Freeze the database", "Kill Holdfast"):
        page.get_by_role("button", name=fault).click()
    expect(duplicate).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".log li")).to_have_count(3)
    keep(page, "simulation-running")
    finish(page)
    assert sold_of(page, "read_then_write") > UNITS
    assert sold_of(page, "get_then_set") > UNITS
    expect(page.locator("[data-shop=conditional_update]")).to_contain_text("charged more than once")
    duplicate.click()
    expect(duplicate).to_have_attribute("aria-pressed", "false")
    keep(page, "simulation-done")
    assert_accessible(page)


@pytest.mark.slow
def test_on_a_phone_a_run_survives_a_killed_server_and_the_next_is_stopped(browser: Browser, address: str) -> None:
    with window(browser, viewport=PHONE, has_touch=True, is_mobile=True, color_scheme="dark") as phone:
        start(phone, address, "SQLite")
        assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        phone.get_by_role("button", name="Kill Holdfast").click()
        finish(phone)
        keep(phone, "simulation-phone")
        assert_accessible(phone)
        start(phone, address, "SQLite")
        phone.get_by_role("button", name="Stop").click()
        expect(phone.locator("[data-phase=stopped]")).to_be_visible()
        phone.reload()
        expect(phone.locator("[data-phase=stopped]")).to_be_visible()
    assert httpx.get(f"{address}/state", trust_env=False).json()["snapshot"]["phase"] == "stopped"
