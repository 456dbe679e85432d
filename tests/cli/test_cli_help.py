"""What a newcomer reads first."""

from typing import Any

import pytest
import typer
from cli_running import Cli
from typer.testing import CliRunner

from holdfast import __version__
from holdfast.cli.app import COMMANDS, app

OURS = [name for name in COMMANDS if name != "bench"]
POOLS, KEYS = ["list", "show", "create", "restock"], ["create", "list", "revoke"]
SALES = ["list", "show", "create", "pause", "resume", "close", "restock"]
EVERY = [
    [],
    *([name] for name in OURS),
    *(["pools", name] for name in POOLS),
    *(["keys", name] for name in KEYS),
    *(["sales", name] for name in SALES),
    ["reservations", "show"],
    ["lottery", "verify"],
]


def help_of(*words: str) -> str:
    answer = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"}, prog_name="holdfast")
    assert answer.exit_code == 0, answer.output
    return answer.output


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_help_fits_into_80_columns_and_names_no_types_of_flags(words: list[str]) -> None:
    text = help_of(*words)
    assert max(map(len, text.splitlines())) <= 80
    assert "<bool>" not in text
    assert text.startswith(" ".join(["Usage: holdfast", *words]))


@pytest.mark.parametrize("name", OURS)
def test_the_list_of_commands_says_what_each_says_of_itself(name: str) -> None:
    assert f"\n  {COMMANDS[name]}\n" in help_of(name)
    assert COMMANDS[name] in help_of()


@pytest.mark.parametrize("name", OURS)
def test_every_command_shows_examples_of_itself(name: str) -> None:
    _, _, shown = help_of(name).partition("Examples:")
    assert f"holdfast {name}" in shown


def test_every_command_has_a_module_that_is_loaded_when_it_is_called() -> None:
    group: Any = typer.main.get_group(app)
    context = typer.Context(group)
    loaded = [group.resolve_command(context, [name])[1].name for name in COMMANDS]
    assert loaded == list(COMMANDS)


def test_the_version_is_told(tmp_path: Any) -> None:
    assert Cli(tmp_path)("--version").out == f"holdfast {__version__}\n"
