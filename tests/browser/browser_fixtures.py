"""What the tests in the browser share.

A pytest plugin and not a conftest.py, because mypy knows one module by the name of `conftest` and not two.
"""

from collections.abc import Iterator

import pytest
from browsing import PHONE, launch, window
from playwright.sync_api import Browser, Page, sync_playwright


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not for longer than a module: while it is open, an event loop runs in this thread, where others want theirs."""
    with sync_playwright() as playwright:
        running = launch(playwright)
        yield running
        running.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A window of a buyer or operator of their own, in English, of desktop size."""
    with window(browser) as opened:
        yield opened


@pytest.fixture
def phone(browser: Browser) -> Iterator[Page]:
    with window(browser, viewport=PHONE, has_touch=True, is_mobile=True) as opened:
        yield opened
