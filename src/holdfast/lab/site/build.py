"""Copies the pages, adds the reference, and runs MkDocs."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from holdfast import __version__
from holdfast.lab.site.reference import reference_pages
from holdfast.lab.site.versions import SCRIPT, write_chooser

DOCS = Path("docs")
# By default the plugin `offline` loads it from another server.
SEARCH_SHIM = "iframe-worker.js"
STYLE = "site.css"
# Pages outside docs/ that are also published, with their names on the site.
_OTHERS = {
    "README.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:|#|<)([^)#\s]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_TUTORIALS = ["five-minutes", "before-your-shop", "take-cards", "go-live"]
# All other pages are how-tos.
_EXPLANATIONS = [
    "ARCHITECTURE", "APPROACHES", "BENCHMARKS", "ROOM", "LOTTERY", "PACE", "SETTLEMENT", "PROOF", "FAULTS", "SIMULATOR",
]  # fmt: skip


def build(directory: Path, version: str = __version__) -> Path:
    """Builds the site in `site` below `directory`: this version, beside the versions built there before."""
    source, site = directory / "docs", directory / "site"
    shutil.rmtree(source, ignore_errors=True)
    _stage(source)
    configuration = directory / "mkdocs.yml"
    # JSON is valid YAML.
    configuration.write_text(json.dumps(_configuration(source.resolve(), site.resolve(), version), indent=2))
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(configuration)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    # Not `--quiet`, because it would also hide warnings from `--strict`.
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit("\n".join(line for line in ran.stderr.splitlines() if not line.startswith("INFO")))
    write_chooser(site)
    return site


def _stage(target: Path) -> None:
    shutil.copytree(DOCS, target)
    for path in sorted(DOCS.rglob("*.md")):
        (target / path.relative_to(DOCS)).write_text(_relinked(path, path.read_text()))
    for name, copy in _OTHERS.items():
        if Path(name).exists():
            (target / copy).write_text(_relinked(Path(name), Path(name).read_text()))
    for name in (SEARCH_SHIM, STYLE):
        shutil.copy(Path(__file__).with_name(name), target)
    (target / "reference").mkdir()
    for name, text in reference_pages().items():
        (target / "reference" / name).write_text(text)


def _relinked(page: Path, text: str) -> str:
    """Rewrites every link to its address on the site, except in code blocks."""
    home = page if page.is_relative_to(DOCS) else DOCS / _OTHERS[str(page)]
    parts, last = [], 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(lambda match: _link(page, home, match), text[last : fence.start()]), fence.group()]
        last = fence.end()
    return "".join([*parts, _LINK.sub(lambda match: _link(page, home, match), text[last:])])


def _link(page: Path, home: Path, match: re.Match[str]) -> str:
    mark, words, target, anchor = match.groups()
    found = Path(os.path.normpath(page.parent / target))
    if str(found) in _OTHERS and found.exists():
        found = DOCS / _OTHERS[str(found)]
    elif not found.is_relative_to(DOCS):
        return words
    elif found.is_dir():
        found /= "README.md"
        if not found.exists():
            return words
    return f"{mark}[{words}]({os.path.relpath(found, home.parent)}{anchor or ''})"


def _configuration(source: Path, site: Path, version: str) -> dict[str, Any]:
    return {
        "site_name": f"Holdfast {version}",
        "docs_dir": str(source),
        "site_dir": str(site / version),
        "use_directory_urls": False,
        # Neither the build nor a reader's browser loads anything from other servers.
        "theme": {
            "name": "material",
            "font": False,
            "features": ["navigation.tabs", "navigation.indexes", "toc.follow", "content.code.copy"],
        },
        "extra_javascript": [f"../{SCRIPT}"],
        # Makes search work in pages that are opened from a disk.
        "plugins": ["search", "offline"],
        "extra": {"polyfills": [SEARCH_SHIM]},
        "extra_css": [STYLE],
        "markdown_extensions": ["admonition", "attr_list", "md_in_html", "tables", {"toc": {"permalink": True}},
                                "pymdownx.superfences"],
        "validation": {"links": {"anchors": "warn", "absolute_links": "warn", "unrecognized_links": "warn"},
                       "nav": {"omitted_files": "warn", "not_found": "warn"}},
        "nav": _navigation(source),
    }  # fmt: skip


def _navigation(source: Path) -> list[Any]:
    pages = sorted(path.stem for path in source.glob("*.md"))
    others = {Path(name).stem for name in _OTHERS.values()} | {"README"}
    explained = [name for name in _EXPLANATIONS if name in pages]
    how_to = [name for name in pages if name not in {*explained, *others}]
    folders = sorted(path.name for path in source.iterdir() if path.is_dir() and any(path.rglob("*.md")))
    more = [
        {name: sorted(str(path.relative_to(source)) for path in (source / name).rglob("*.md"))}
        for name in folders
        if name not in {"tutorials", "reference", "adr"}
    ]
    return [
        {"Home": ["README.md", *sorted(name for name in _OTHERS.values() if (source / name).exists())]},
        {"Tutorials": [f"tutorials/{name}.md" for name in _TUTORIALS]},
        {"How-to guides": [*(f"{name}.md" for name in how_to), *more]},
        {"Reference": sorted(f"reference/{path.name}" for path in (source / "reference").glob("*.md"))},
        {
            "Explanations": [
                *(f"{name}.md" for name in explained),
                {"Decisions": sorted(f"adr/{path.name}" for path in (source / "adr").glob("*.md"))},
            ]
        },
    ]
