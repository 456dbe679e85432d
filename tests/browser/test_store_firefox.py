"""A purchase in a real Firefox: another engine than all the other browser tests have."""

from collections.abc import Iterator
from pathlib import Path

import firefox
import pytest
from firefox import Firefox, running
from http_calling import eventually
from http_serving import Server
from storefronts import LINE, sale

pytest_plugins = ("http_fixtures", "store_fixtures")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(firefox.program() is None, reason="needs Firefox: `make firefox` (apt-get install firefox-esr)"),
]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Firefox]:
    with running(tmp_path) as opened:
        yield opened


def test_a_buyer_joins_solves_the_puzzle_and_buys(browser: Firefox, demo: Server) -> None:
    store = sale(demo, room=LINE, proof_of_work={"cost": 40})
    browser.open(f"{store.server.url}/s/{store.sale_id}")
    browser.press("Join the line")
    browser.appears("#panel.cart")
    browser.press("Pay")
    browser.appears("#panel.confirmed", "Order placed")
    eventually(lambda: store.counts() == (2, 0, 1))
    assert browser.complaints == []
