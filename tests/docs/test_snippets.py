"""What the documentation tells people to type is read by the program that it is for; test_pages_run.py runs it."""

import ast
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
from pages import PAGES, blocks_of, commands_of

from holdfast.cli.app import app
from holdfast.http.contract.endpoints import ENDPOINTS

_REQUEST = re.compile(r"^((?:GET|PUT|POST|PATCH|DELETE)(?:\|[A-Z]+)*) +(/v1/[^\s?]+)", re.MULTILINE)


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_request_that_a_page_lists_is_one_that_the_server_takes(page: Path) -> None:
    served = {(one.method, re.sub(r"\{\w+\}", "{}", one.template)) for one in ENDPOINTS}
    for text in blocks_of(page, ""):
        for methods, path in _REQUEST.findall(text):
            for method in methods.split("|"):
                assert (method, re.sub(r"\{\w+\}", "{}", path)) in served
