"""Fixtures of the browser tests.

A pytest plugin instead of a conftest.py, because mypy accepts only one module named `conftest`.
"""

from collections.abc import Iterator

import pytest
from browsing import PHONE, launch, window
from playwright.sync_api import Browser, Page, sync_playwright


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Closed after each module: while it is open, its event loop blocks this thread for other tests' loops."""
    with sync_playwright() as playwright:
        running = launch(playwright)
        yield running
        running.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh window in English, of desktop size."""
    with window(browser) as opened:
        yield opened


@pytest.fixture
def phone(browser: Browser) -> Iterator[Page]:
    with window(browser, viewport=PHONE, has_touch=True, is_mobile=True) as opened:
        yield opened
