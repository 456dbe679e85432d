"""A shop of another origin and the room in front of its checkout: from the shop to the line, back, and paid there."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from browsing import assert_accessible, keep
from connect_installed import with_connect
from http_calling import eventually
from http_sales import Store, body_of
from http_serving import BUYER_SECRET, SERVICE_KEY, Server, started
from playwright.sync_api import Page, expect
from storefronts import LINE, pause_room

from holdfast.lab.load.engines import free_port

pytest_plugins = ("http_fixtures", "browser_fixtures")

SHOP = Path(__file__).parents[2] / "examples" / "fastapi_shop"
SALE = "loop"


@pytest.fixture(scope="module")
def shop_origin() -> str:
    return f"http://127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def room(shop_origin: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"ALLOWED_ORIGINS": shop_origin, "BUYER_TOKEN_URL": f"{shop_origin}/login/token"}
    with started(tmp_path_factory.mktemp("room"), settings=settings) as server:
        yield server


@pytest.fixture(scope="module")
def store(room: Server, shop_origin: str) -> Store:
    store = Store(room, SALE, "loop")
    store.open(room=LINE, payment="external", checkout_url=f"{shop_origin}/pay", total_units=5)
    return store


@pytest.fixture(scope="module")
def shop(room: Server, shop_origin: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    own = {"HOLDFAST_URL": room.url, "SHOP_URL": shop_origin, "SALE_ID": SALE}
    keys = {"HOLDFAST_SERVICE_KEY": SERVICE_KEY, "HOLDFAST_BUYER_SECRET": BUYER_SECRET}
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(SHOP), "shop:app", "--port"]
    directory = tmp_path_factory.mktemp("shop")
    environment = with_connect(directory) | own | keys
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([*command, shop_origin.rpartition(":")[2]], env=environment, stdout=log, stderr=log)
    try:
        eventually(lambda: is_open(shop_origin))
        yield shop_origin
    finally:
        process.kill()
        process.wait()


def is_open(url: str) -> bool:
    try:
        return httpx.get(url, verify=False, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def orders(store: Store) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = body_of(store.server.client.get(f"/v1/orders?sale_id={store.sale_id}"))["data"]
    return listed


def test_from_the_shop_to_the_line_and_back_with_a_pass_and_paid_at_the_shop(
    page: Page, store: Store, shop: str
) -> None:
    pause_room(store, paused=True)
    page.goto(shop)
    page.get_by_role("link", name="Buy now").click()
    expect(page).to_have_url(f"{store.server.url}/s/{SALE}?return_to={quote(f'{shop}/checkout', safe='')}")
    page.get_by_role("button", name="Join the line").click()
    expect(page.locator("#panel")).to_contain_text(f"we take you back to {shop.removeprefix('http://')}")
    assert_accessible(page)
    keep(page, "loop-waiting")
    pause_room(store, paused=False)
    expect(page.get_by_role("heading", name="Reserved for you")).to_be_visible()
    assert page.url == f"{shop}/checkout"
    [cookie] = [one for one in page.context.cookies(shop) if one["name"] == "holdfast_pass"]
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Lax", "/")
    page.reload()
    expect(page.get_by_role("heading", name="Reserved for you")).to_be_visible()
    assert store.counts() == (4, 1, 0)
    page.get_by_role("button", name="Pay").click()
    expect(page.get_by_text("Your order is confirmed")).to_be_visible()
    assert store.counts() == (4, 0, 1)
    [order] = orders(store)
    assert (order["status"], order["quantity"]) == ("confirmed", 1)


def test_a_cart_of_the_hosted_page_is_paid_at_the_shops_checkout(page: Page, store: Store, shop: str) -> None:
    page.goto(shop)
    page.goto(f"{store.server.url}/s/{SALE}")
    page.get_by_role("button", name="Join the line").click()
    link = page.get_by_role("link", name=f"Pay at {shop.removeprefix('http://')}")
    expect(link).to_have_attribute("href", re.compile(rf"^{shop}/pay\?sale_id={SALE}&reservation_id=rsv_"))
    assert_accessible(page)
    keep(page, "loop-external-cart")
    with page.context.expect_page() as opened:
        link.click(modifiers=["ControlOrMeta"])
    opened.value.get_by_role("button", name="Pay").click()
    expect(opened.value.get_by_text("Your order is confirmed")).to_be_visible()
    expect(page.get_by_role("heading", name="yours")).to_be_visible()


def test_a_shop_that_does_not_take_the_pass_is_a_button_and_no_loop(page: Page, store: Store, shop: str) -> None:
    """The second time with the same pass, the visitor decides."""
    page.goto(shop)
    page.route(f"{shop}/nowhere**", lambda route: route.fulfill(body="<title>x</title>", content_type="text/html"))
    waiting = f"{store.server.url}/s/{SALE}?return_to={quote(f'{shop}/nowhere?a=1', safe='')}"
    page.goto(waiting)
    with page.expect_request(f"{shop}/nowhere**") as sent:
        page.get_by_role("button", name="Join the line").click()
    assert (sent.value.method, sent.value.url) == ("POST", f"{shop}/nowhere?a=1&holdfast_return=1")
    assert re.fullmatch(r"holdfast_pass=[\w.-]+", sent.value.post_data or "")
    page.goto(waiting)
    button = page.get_by_role("button", name="Continue to the shop")
    expect(button).to_be_visible()
    assert_accessible(page)
    keep(page, "loop-button")
    assert page.url == waiting


HOSTILE = [
    "//evil.example", "https:evil.example", "https:/evil.example", "https:///evil.example", "/\\evil.example",
    "\\\\evil.example", "https:\\\\evil.example", "https://SHOP@evil.example", "https://user:secret@SHOP",
    "https://SHOP.evil.example", "https://evil.example\\@SHOP", "https://evil.example/https://SHOP",
    "javascript:alert(1)", "data:text/html,x", "blob:https://SHOP/1", "ftp://SHOP", "https://SHOP:8443",
    "http://SHOP", " //evil.example", "\t//evil.example", "/\t/evil.example", "http:SHOP",
    "https://evil.example#https://SHOP", "https://evil.example?https://SHOP", "///evil.example", "evil.example", "",
]  # fmt: skip


@pytest.mark.parametrize("base", [None, "https://shop.example.com/pay"], ids=["no checkout", "checkout"])
def test_a_hostile_return_address_never_leaves_the_allowed_origins(page: Page, room: Server, base: str | None) -> None:
    """Either it is refused, or what the browser understands is within the shop: that, and no other text, is used."""
    page.goto(f"{room.url}/assets/holdfast.svg")
    sale = {"room": {"mode": "fifo"}, "checkout_url": base}
    script = """async ([sale, values]) => {
      const { returnTarget, returnForm } = await import('/assets/store/return-to.js');
      const origins = ['https://shop.example.com'];
      const find = (value) => returnTarget(sale, origins, '?return_to=' + encodeURIComponent(value));
      return values.map((value) => find(value) && returnForm(find(value), 'p').action);
    }"""
    values = [value.replace("SHOP", "shop.example.com") for value in HOSTILE]
    found = dict(zip(values, page.evaluate(script, [sale, values]), strict=True))
    kept = {value: action for value, action in found.items() if action is not None}
    assert all(action.startswith("https://shop.example.com/") for action in kept.values()), kept
    assert base is not None or kept == {}
    good = page.evaluate(script, [sale, ["https://shop.example.com/a?b=c", "/a"]])
    inside = "https://shop.example.com/a?holdfast_return=1"
    assert good == ["https://shop.example.com/a?b=c&holdfast_return=1", None if base is None else inside]


def test_the_pages_policy_lets_forms_go_to_the_allowed_origins_only(room: Server, shop_origin: str) -> None:
    policy = httpx.get(f"{room.url}/s/{SALE}", verify=False, trust_env=False).headers["content-security-policy"]
    assert f"form-action 'self' {shop_origin};" in policy
