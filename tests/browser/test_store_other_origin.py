"""holdfast.js in the page of a shop with an origin of its own."""

import re
from collections.abc import Iterator

import pytest
from http_serving import Server, started
from http_tokens import buyer_token
from other_origin import Pages, pages_elsewhere
from playwright.sync_api import Page, expect
from storefronts import LINE, sale

pytest_plugins = ("http_fixtures", "browser_fixtures")

PAGE = """\
<!doctype html>
<title>My drop</title>
<link rel="icon" href="data:,">
<p id="what"></p>
<script type="module">
  import { joinAndBuy } from "ORIGIN/assets/holdfast.js";
  const buying = joinAndBuy("SALE", {
    origin: "ORIGIN",
    token: "TOKEN",
    onState(state) {
      document.getElementById("what").textContent = `${state.name} ${state.order?.order_id ?? state.reason ?? ""}`;
      if (state.name === "cart" && !state.isBusy && !state.problem) buying.pay();
    },
  });
</script>
"""


@pytest.fixture(scope="module")
def shop() -> Iterator[Pages]:
    with pages_elsewhere() as pages:
        yield pages


@pytest.fixture(scope="module")
def room(shop: Pages, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with started(tmp_path_factory.mktemp("room"), settings={"ALLOWED_ORIGINS": shop.origin}) as server:
        yield server


def test_a_page_of_an_allowed_origin_joins_solves_the_puzzle_and_buys(page: Page, room: Server, shop: Pages) -> None:
    store = sale(room, room=LINE, proof_of_work={"cost": 10})
    credit = {"amount": 10_000, "currency": "EUR", "idempotency_key": "purse"}
    assert room.client.post("/v1/wallets/ada/credit", json=credit).status_code == 200
    own = PAGE.replace("ORIGIN", room.url).replace("SALE", store.sale_id).replace("TOKEN", buyer_token("ada"))
    shop.bodies["/drop"] = own
    page.goto(f"{shop.origin}/drop")
    expect(page.locator("#what")).to_have_text(re.compile(r"confirmed ord_[0-9a-f]{32}"))
