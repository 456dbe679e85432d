"""The pages of the documentation, and running what they tell people to type, in the order of the page."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from http_serving import BUYER_SECRET, SERVICE_KEY, Server, settings_of, started

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md")])
BLOCK = re.compile(r"(<!-- not run -->\n)?^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMANDS = {"sh": ("bash", "-euc"), "python": (sys.executable, "-c")}
# Where a command begins, up to a pipe, a redirection, the end of a substitution or a comment.
_HOLDFAST = re.compile(
    r"(?:^|[$(&|] ?|[A-Z_]+=\S+ )(?:\.venv/bin/|/opt/holdfast/bin/)?holdfast ([^|>#&)\n]*)", re.MULTILINE
)
_STARTS_SOMETHING = re.compile(r"make |holdfast (serve|sandbox|worker)")
# What a page leaves for the reader to fill in.
_FILLED_IN = {
    "rsv_…": '$(curl -s $URL/v1/reservations -H "Authorization: Bearer $ADA" | grep -o "rsv_[^\\"]*" | head -1)',
    "hf_…": SERVICE_KEY,
}


def blocks_of(page: Path, *kinds: str) -> list[str]:
    return [text for skipped, kind, text in BLOCK.findall(page.read_text()) if kind in kinds and not skipped]


def commands_of(page: Path) -> Iterator[list[str]]:
    for _, kind, text in BLOCK.findall(page.read_text()):
        if kind in {"", "sh", "console"}:
            for words in _HOLDFAST.findall(text.replace("\\\n", " ")):
                yield shlex.split(words.replace("…]", "]"))


def typed_on(page: str) -> list[str]:
    """The blocks of commands of a page; of a block that shows a terminal, what is typed there."""
    found = [(kind, text) for skipped, kind, text in BLOCK.findall((DOCS / page).read_text()) if not skipped]
    return [
        _typed(text) for kind, text in found if kind in {"sh", "console"} or (kind == "" and _HOLDFAST.search(text))
    ]


def _typed(text: str) -> str:
    if not text.startswith("$ "):
        return text
    return "".join(line.removeprefix("$ ") for line in text.splitlines(keepends=True) if line.startswith("$ "))


@contextmanager
def shop_in(directory: Path, settings: dict[str, str] | None = None) -> Iterator[Server]:
    """A server as the pages assume it: with the pool and sale `demo`, and the commands where the pages have them."""
    binaries = directory / ".venv" / "bin"
    binaries.mkdir(parents=True)
    command = binaries / "holdfast"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n')
    command.chmod(0o755)
    with started(directory, settings=settings) as running_:
        (directory / "data").mkdir(exist_ok=True)
        (directory / "data" / "service_key").write_text(SERVICE_KEY)
        price = ("--price", "4999", "--currency", "EUR", "--payment", "wallet")
        for made in (("pools", "create", "demo"), ("sales", "create", "demo", "--sku", "demo-drop", *price)):
            code, _, err = running_.run(*made, "--units", "500")
            assert code == 0, err
        yield running_


def run_page(page: Path, server: Server, replaced: dict[str, str]) -> str:
    """All blocks of a page, one after the other, in one shell."""
    text = "".join(block for block in blocks_of(page, "sh") if not _STARTS_SOMETHING.search(block))
    # A stream of events ends when the reservation does.
    text = re.sub(r"^(curl -N .*?)(#.*)?$", r"\1 &", filled(replace_all(text, replaced), server), flags=re.MULTILINE)
    return run_block("sh", text, server)


def replace_all(text: str, replaced: dict[str, str]) -> str:
    for old, new in replaced.items():
        assert old in text, f"{old} is not on the page any more"
        text = text.replace(old, new)
    return text


def filled(text: str, server: Server) -> str:
    for old, new in (_FILLED_IN | {"http://127.0.0.1:8000": server.url}).items():
        text = text.replace(old, new)
    return text


def run_block(kind: str, text: str, server: Server, **variables: str) -> str:
    environment = settings_of(server.directory, {}) | {"URL": server.url, "KEY": SERVICE_KEY, "PYTHONPATH": _path()}
    environment |= {name: value for name, value in server.environment.items() if name.startswith("HOLDFAST_")}
    environment |= {"HOLDFAST_BUYER_SECRET": BUYER_SECRET, "PATH": f"{server.directory}/.venv/bin:{os.environ['PATH']}"}
    ran = subprocess.run(
        [*COMMANDS[kind], text], cwd=server.directory, env=environment | variables,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def _path() -> str:
    return os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
