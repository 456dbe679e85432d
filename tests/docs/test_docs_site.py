"""The website of the documentation: it builds, all its links lead somewhere, and nothing comes from other servers."""

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from browsing import launch
from playwright.sync_api import expect, sync_playwright

from holdfast import __version__
from holdfast.http.contract.problems import CATALOGUE
from holdfast.settings import Settings

ROOT = Path(__file__).parents[2]
OLDER = "0.0.9"
pytestmark = pytest.mark.slow


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in {"script", "img", "iframe"} and "src" in given:
            self.loaded.append(given["src"])
        if tag == "link" and given.get("rel") in {"stylesheet", "preconnect"}:
            self.loaded.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    directory = tmp_path_factory.mktemp("site")
    older = f"import pathlib; from holdfast.lab.site.build import build; build(pathlib.Path('{directory}'), '{OLDER}')"
    subprocess.run([sys.executable, "-c", older], cwd=ROOT, check=True, timeout=600)
    subprocess.run([sys.executable, "-m", "holdfast.lab.site", directory], cwd=ROOT, check=True, timeout=600)
    return {path: Page(path.read_text()) for path in (directory / "site").rglob("*.html")}


def test_every_link_and_anchor_leads_somewhere(site: dict[Path, Page]) -> None:
    broken = []
    for path, page in site.items():
        for link in page.links:
            address, anchor = urldefrag(link)
            if re.match(r"[a-z]+:", address) or path.name == "404.html":
                continue
            target = (path.parent / unquote(address)).resolve() if address else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (anchor and target in site and unquote(anchor) not in site[target].ids):
                broken.append(f"{path.name}: {link}")
    assert broken == []
    assert len(site) > 80


def test_every_page_of_every_version_loads_the_choice_between_them(site: dict[Path, Page]) -> None:
    top = next(path for path in site if path.name == "index.html" and not site[path].loaded).parent
    assert (top / "versions.js").read_text().startswith(f'const versions = ["{__version__}", "{OLDER}"];')
    assert f"url={__version__}/index.html" in (top / "index.html").read_text()
    for path, page in site.items():
        if path != top / "index.html" and path.name != "404.html":
            assert any((path.parent / link).resolve() == top / "versions.js" for link in page.loaded), path


def test_a_reader_chooses_a_version_without_any_server(site: dict[Path, Page]) -> None:
    top = next(path for path in site if path.name == "index.html" and not site[path].loaded).parent
    with sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page()
        page.goto((top / "index.html").as_uri())
        page.wait_for_url(f"**/{__version__}/index.html")
        page.goto((top / __version__ / "reference" / "errors.html").as_uri())
        chooser = page.get_by_label("Version")
        expect(chooser).to_have_value(__version__)
        chooser.select_option(OLDER)
        page.wait_for_url(f"**/{OLDER}/index.html")
        expect(page.get_by_label("Version")).to_have_value(OLDER)
        browser.close()


def test_the_search_has_every_page(site: dict[Path, Page]) -> None:
    [index] = {path.parent for path in site if path.name == "overview.html" and __version__ in path.parts}
    known = json.loads((index / "search" / "search_index.json").read_text())["docs"]
    pages = {str(path.relative_to(index)) for path in site if path.is_relative_to(index) and path.name != "404.html"}
    assert pages <= {one["location"].partition("#")[0] for one in known}


def test_a_reader_searches_without_any_server(site: dict[Path, Page]) -> None:
    [index] = [path for path in site if path.name == "index.html" and path.parent.name == __version__]
    with sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page()
        page.goto(index.as_uri())
        page.get_by_placeholder("Search").fill("restore a backup")
        page.locator(".md-search-result__link[href*='BACKUP.html']").first.click()
        page.wait_for_url("**/BACKUP.html*")
        browser.close()


def test_nothing_is_loaded_from_another_server(site: dict[Path, Page]) -> None:
    loaded = {address for page in site.values() for address in page.loaded}
    assert loaded
    assert not {address for address in loaded if "//" in address}


def test_every_reason_has_an_anchor_and_every_setting_a_row(site: dict[Path, Page]) -> None:
    by_name = {path.name: path for path in site if path.parent.name == "reference" and __version__ in path.parts}
    assert set(CATALOGUE) <= site[by_name["errors.html"]].ids
    settings = by_name["settings.html"].read_text()
    assert all(f"HOLDFAST_{name.upper()}<" in settings for name in Settings.model_fields if name != "demo")
    assert {"holdfast-serve", "holdfast-sales-create"} <= site[by_name["cli.html"]].ids


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    for name in ("docs", "README.md", "CHANGELOG.md"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    (tmp_path / "docs" / "SALES.md").write_text("# Sales\n\n[gone](ROOM.md#nowhere)\n")
    ran = subprocess.run(
        [sys.executable, "-m", "holdfast.lab.site", tmp_path / "out"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode != 0
    assert "nowhere" in ran.stderr
