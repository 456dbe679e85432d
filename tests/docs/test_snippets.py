"""What the documentation tells people to type: all of it is read by the program it is for, and what one server can
answer is run against a real one, page by page."""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from http_sales import store_of
from http_serving import BUYER_SECRET, SERVICE_KEY, Server, settings_of, started
from settle_sandbox import running_sandbox

from holdfast.cli.app import app
from holdfast.client import Client

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md")])
TUTORIAL = DOCS / "tutorials" / "five-minutes.md"
_BLOCK = re.compile(r"(<!-- not run -->\n)?^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMANDS = {"sh": ("bash", "-euc"), "python": (sys.executable, "-c")}
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
    return [text for skipped, kind, text in _BLOCK.findall(page.read_text()) if kind in kinds and not skipped]


def commands_of(page: Path) -> Iterator[list[str]]:
    for _, kind, text in _BLOCK.findall(page.read_text()):
        if kind in {"", "sh", "console"}:
            for words in _HOLDFAST.findall(text.replace("\\\n", " ")):
                yield shlex.split(words.replace("…]", "]"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_line_is_one_that_the_program_takes(page: Path) -> None:
    for words in commands_of(page):
        command: Any = typer.main.get_group(app)
        left = [word for word in words if word != "…"]
        if left[0].startswith("-"):
            continue  # Completion, which test_cli_help tries.
        context = typer.Context(command)
        while left and hasattr(command, "resolve_command"):
            _, command, left = command.resolve_command(context, left)
        try:
            command.make_context("holdfast", left)
        except typer.Exit:
            pass
        except Exception as exc:
            pytest.fail(f"holdfast {' '.join(words)}: {exc}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_snippet_of_python_toml_and_json_can_be_read(page: Path) -> None:
    for text in blocks_of(page, "python"):
        ast.parse(text)
    for text in blocks_of(page, "toml"):
        tomllib.loads(text)
    for text in blocks_of(page, "json"):
        json.loads(text)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with started(tmp_path_factory.mktemp("tutorial")) as running_:
        yield running_


def test_the_five_minutes_work_as_they_are_written(server: Server) -> None:
    blocks = [(kind, text) for skipped, kind, text in _BLOCK.findall(TUTORIAL.read_text()) if not skipped]
    blocks = [(kind, text) for kind, text in blocks if kind in _COMMANDS]
    assert [kind for kind, _ in blocks] == ["sh", "python", "sh"]
    said = [_run(kind, text, server) for kind, text in blocks]
    assert '"total_units":2' in said[0]
    assert "Bo gets none" in said[1]
    assert '"sold":2' in said[2]
    with Client(server.url, key=SERVICE_KEY) as client:
        assert client.available("poster").available == 0


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server as the pages assume it: with the pool and sale `demo`, and the commands where the pages have them."""
    directory = tmp_path_factory.mktemp("shop")
    binaries = directory / ".venv" / "bin"
    binaries.mkdir(parents=True)
    command = binaries / "holdfast"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n')
    command.chmod(0o755)
    with started(directory) as running_:
        (directory / "data" / "service_key").write_text(SERVICE_KEY)
        price = ("--price", "4999", "--currency", "EUR", "--payment", "wallet")
        for made in (("pools", "create", "demo"), ("sales", "create", "demo", "--sku", "demo-drop", *price)):
            code, _, err = running_.run(*made, "--units", "500")
            assert code == 0, err
        yield running_


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("README.md", 12), ("docs/SALES.md", 14)])
def test_a_page_for_buyers_and_sellers_works_as_it_is_written(shop: Server, name: str, least: int) -> None:
    # One unit per buyer, and each page begins with its own.
    said = _script(ROOT / name, shop, {"ada": f"ada{least}"})
    assert "urn:holdfast:" not in said
    assert said.count("{") >= least
    with Client(shop.url, key=SERVICE_KEY) as client:
        assert client.available("demo-drop").sold >= 1


@pytest.mark.slow
def test_the_runbook_works_as_it_is_written(shop: Server) -> None:
    store = store_of(shop)
    store.open(payment="external", total_units=500, room={"mode": "fifo"})
    page = "".join(blocks_of(DOCS / "RUNBOOK.md", "sh")).replace("SALE_ID", store.sale_id)
    said = ""
    for line in page.splitlines():
        name, *words = shlex.split(line, comments=True)
        if name == "holdfast":
            code, out, err = shop.run(*words)
            # The doctor finds faults with a machine that runs tests.
            assert code == 0 or (words[0] == "doctor" and code == 1), (words, out, err)
            said += out
    assert said.count("PROVEN: ") >= 4
    assert "fifo, paused: nobody is called" in said
    assert store.show()["phase"] == "ended"
    calls = [line for line in page.splitlines() if line.startswith(("url=", "key=", "curl "))]
    assert '"status":"ready"' in _run("sh", _filled("\n".join(calls), shop), shop)


@pytest.mark.slow
def test_the_sandbox_does_what_its_page_says(shop: Server) -> None:
    with running_sandbox() as sandbox:
        said = _script(DOCS / "PAYMENTS.md", shop, {"http://127.0.0.1:8081": sandbox.url})
        assert [entry["state"] for entry in sandbox.books().values()] == ["captured"]
    assert said.count('"state":"captured"') >= 3
    assert said.count('"lost_reply_silent":') == 4


@pytest.mark.slow
def test_the_python_client_does_what_its_page_says(shop: Server) -> None:
    # A pool that the other pages do not sell.
    first, second, _ = (text.replace("sneaker", "boot") for text in blocks_of(DOCS / "CLIENTS.md", "python"))
    assert _run("python", _filled(first, shop), shop).strip() == "2"
    opened = f"client = Client({shop.url!r}, key={SERVICE_KEY!r})\n"
    taken = 'client.reserve("boot-42", owner_id="cy", quantity=498)\n'
    assert _run("python", f"from holdfast.client import Client\n{opened}{taken}{second}", shop).strip() == "0"


def _script(page: Path, server: Server, replaced: dict[str, str]) -> str:
    """All blocks of a page, one after the other, in one shell."""
    text = "".join(block for block in blocks_of(page, "sh") if not _STARTS_SOMETHING.search(block))
    for old, new in replaced.items():
        text = text.replace(old, new)
    # A stream of events ends when the reservation does.
    return _run("sh", re.sub(r"^(curl -N .*?)(#.*)?$", r"\1 &", _filled(text, server), flags=re.MULTILINE), server)


def _filled(text: str, server: Server) -> str:
    for old, new in (_FILLED_IN | {"http://127.0.0.1:8000": server.url}).items():
        text = text.replace(old, new)
    return text


def _run(kind: str, text: str, server: Server) -> str:
    environment = settings_of(server.directory, {}) | {"URL": server.url, "KEY": SERVICE_KEY, "PYTHONPATH": _path()}
    environment |= {"HOLDFAST_BUYER_SECRET": BUYER_SECRET, "PATH": f"{server.directory}/.venv/bin:{os.environ['PATH']}"}
    ran = subprocess.run(
        [*_COMMANDS[kind], text], cwd=server.directory, env=environment,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def _path() -> str:
    return os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
