"""Takes the screenshots in docs/images from a demo with a crowd.

`PYTHONPATH=tests:tests/http:tests/browser python tests/browser/take_screenshots.py`
"""

import base64
import re
import tempfile
from pathlib import Path

from browsing import PHONE, launch, window
from console_page import sign_in
from http_serving import Server, started
from playwright.sync_api import Browser, Page, expect, sync_playwright

from forking import HOLDFAST

IMAGES = Path(__file__).parents[2] / "docs" / "images"
DROP = "drop-1"
QUALITY = 84
CONSOLE = {"width": 1440, "height": 1470}
CROWD = ("--units", "300", "--buyers", "900", "--seconds", "120")
SIDE_BY_SIDE = "<body style='margin:0;display:flex;gap:16px;width:max-content;background:#fff'>"


def capture(page: Page) -> bytes:
    """The visible part, as WebP, which Playwright's own screenshots do not offer."""
    options = {"format": "webp", "quality": QUALITY}
    return base64.b64decode(page.context.new_cdp_session(page).send("Page.captureScreenshot", options)["data"])


def save(page: Page, name: str) -> None:
    (IMAGES / f"{name}.webp").write_bytes(capture(page))


def take_storefront(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/s/{DROP}")
    expect(page.get_by_role("timer")).to_be_visible()
    page.wait_for_load_state("networkidle")
    save(page, "storefront")


def join(page: Page, server: Server) -> None:
    """Joins after the opening, behind part of the crowd."""
    page.goto(f"{server.url}/s/{DROP}")
    expect(page.get_by_text(re.compile(r"\d\d people in line"))).to_be_visible()
    page.get_by_role("button", name="Join the line").click()


def take_line(page: Page) -> bytes:
    page.wait_for_function("() => document.querySelector('.waiting progress')?.value >= 25")
    return capture(page)


def take_purchase(page: Page) -> list[bytes]:
    page.get_by_role("button", name="Pay").wait_for()
    cart = capture(page)
    page.get_by_role("button", name="Pay").click()
    page.get_by_text("Receipt", exact=True).wait_for()
    return [cart, capture(page)]


def compose(browser: Browser, images: list[bytes]) -> None:
    sources = [base64.b64encode(image).decode() for image in images]
    with window(browser, viewport={"width": 1350, "height": 950}) as page:
        page.set_content(SIDE_BY_SIDE + "".join(f"<img src='data:image/webp;base64,{source}'>" for source in sources))
        page.wait_for_function("() => [...document.images].every((image) => image.complete)")
        box = page.locator("body").bounding_box()
        assert box is not None
        page.set_viewport_size({"width": round(box["width"]), "height": round(box["height"])})
        save(page, "phone")


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as place,
        started(Path(place), *CROWD, command=(*HOLDFAST, "demo")) as server,
        sync_playwright() as playwright,
    ):
        browser = launch(playwright)
        with (
            window(browser, viewport=CONSOLE) as console,
            window(browser, viewport=PHONE, device_scale_factor=1.125, color_scheme="dark") as phone,
            window(browser) as page,
        ):
            sign_in(console, server, f"sale/{DROP}")
            take_storefront(page, server)
            for buyer in (phone, page):
                join(buyer, server)
            on_phone = [take_line(phone)]
            (IMAGES / "line.webp").write_bytes(take_line(page))
            on_phone += take_purchase(phone)
            console.wait_for_function("() => document.querySelector('.at-sold b').textContent >= 200")
            save(console, "console")
        compose(browser, on_phone)
        browser.close()


if __name__ == "__main__":
    main()
