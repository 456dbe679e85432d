"""A real Chromium, and what every page must keep to: no error in its console, nothing its policy had to forbid."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# As root it must not use its sandbox, and it must not look for hosts of its maker.
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
# Kept, so that people can look at them.
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
# On a busy machine a page may take its time; a test waits for what it wants to see, not for so long.
PATIENCE_MS = 60_000
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def launch(playwright: Playwright) -> Browser:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.fail("these tests need Chromium: `make browser` installs it (apt-get install chromium)")
    return playwright.chromium.launch(executable_path=program, args=ARGUMENTS)


@contextmanager
def window(browser: Browser, **settings: object) -> Iterator[Page]:
    """At the end nothing may have gone wrong that the page itself would not show."""
    given = {"viewport": DESKTOP, "locale": "en-GB", "reduced_motion": "reduce"} | settings
    context = browser.new_context(**given)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE_MS)
    opened, complaints = context.new_page(), list[str]()
    opened.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    opened.on("console", lambda message: _note(message, complaints))
    try:
        yield opened
    finally:
        context.close()
    assert complaints == []


def _note(message: ConsoleMessage, complaints: list[str]) -> None:
    """An answer such as 409 is written to the console by the browser itself, and is no fault of the page."""
    if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
        complaints.append(f"{message.type}: {message.text}")


def keep(page: Page, name: str) -> Path:
    """A screenshot for people to look at."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    path = SCREENSHOTS / f"{name}.png"
    page.screenshot(path=path, full_page=True)
    return path


def assert_accessible(page: Page) -> None:
    """WCAG 2 AA, as far as axe can tell."""
    found = Axe().run(page, options={"runOnly": RULES})
    assert found.violations_count == 0, found.generate_report()
