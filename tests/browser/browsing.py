"""A real Chromium, and the rules for every page: no errors in the console, no violation of its CSP, accessible."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# The sandbox does not work as root; the rest keeps Chromium from calling its vendor's hosts.
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
# An upper bound for a busy machine. Tests wait for a condition, never for a time.
TIMEOUT_MS = 60_000
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
# A phone of today with the browser's own bars.
SMALL = {"width": 390, "height": 664}
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def launch(playwright: Playwright) -> Browser:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.fail("these tests need Chromium: `make browser` installs it (apt-get install chromium)")
    return playwright.chromium.launch(executable_path=program, args=ARGUMENTS)


@contextmanager
def window(browser: Browser, **settings: object) -> Iterator[Page]:
    """A window of its own. Fails at the end if the page logged an error or a warning."""
    options = {"viewport": DESKTOP, "locale": "en-GB", "reduced_motion": "reduce"} | settings
    context = browser.new_context(**options)  # type: ignore[arg-type]
    context.set_default_timeout(TIMEOUT_MS)
    opened, complaints = context.new_page(), list[str]()
    opened.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    opened.on("console", lambda message: _note(message, complaints))
    try:
        yield opened
    finally:
        context.close()
    assert complaints == []


def _note(message: ConsoleMessage, complaints: list[str]) -> None:
    """The browser itself logs responses such as 409; those are not the page's fault."""
    if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
        complaints.append(f"{message.type}: {message.text}")


def keep(page: Page, name: str) -> Path:
    """Save a screenshot for review."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    path = SCREENSHOTS / f"{name}.png"
    page.screenshot(path=path, full_page=True)
    return path


def assert_accessible(page: Page) -> None:
    """WCAG 2.2 AA, as far as axe can check."""
    found = Axe().run(page, options={"runOnly": RULES})
    assert found.violations_count == 0, found.generate_report()
