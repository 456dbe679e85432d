"""What a newcomer reads first."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from cli_running import Cli
from typer.testing import CliRunner

from holdfast import __version__
from holdfast.cli.app import COMMANDS, app


def every_command() -> Iterator[list[str]]:
    group: Any = typer.main.get_group(app)
    context = typer.Context(group)
    for name in COMMANDS:
        yield [name]
        command = group.resolve_command(context, [name])[1]
        yield from ([name, sub] for sub in getattr(command, "commands", {}))


EVERY = list(every_command())


def help_of(*words: str) -> str:
    answer = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"}, prog_name="holdfast")
    assert answer.exit_code == 0, answer.output
    return answer.output


@pytest.mark.parametrize("words", [[], *EVERY], ids=" ".join)
def test_help_fits_into_80_columns_and_names_values_as_people_do(words: list[str]) -> None:
    text = help_of(*words)
    assert max(map(len, text.splitlines())) <= 80
    assert re.findall(r"<(?:str|int|float|path)\b|\b(?:INTEGER|FLOAT|PATH|FILENAME)\b(?!\.)", text) == [], (
        "types for programmers"
    )
    assert text.startswith(" ".join(["Usage: holdfast", *words]))
    assert "{" not in text.splitlines()[0]


@pytest.mark.parametrize("words", [[], *EVERY], ids=" ".join)
def test_a_list_of_commands_cuts_no_summary_off(words: list[str]) -> None:
    listed = help_of(*words).partition("\nCommands:\n")[2].partition("\nExamples:\n")[0]
    assert not re.search(r"\.\.\.$|\[\.\.\.\]", listed, re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "bench"])
def test_the_command_list_repeats_each_summary(name: str) -> None:
    assert f"\n  {COMMANDS[name]}\n" in help_of(name)
    assert COMMANDS[name] in help_of()


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_command_shows_an_example_of_itself(words: list[str]) -> None:
    _, _, shown = help_of(*words).partition("Examples:")
    assert " ".join(["holdfast", *words]) in shown


def test_every_command_has_a_module_that_is_loaded_when_it_is_called() -> None:
    group: Any = typer.main.get_group(app)
    context = typer.Context(group)
    loaded = [group.resolve_command(context, [name])[1].name for name in COMMANDS]
    assert loaded == list(COMMANDS)


@pytest.mark.parametrize(("words", "expected"), [("sales cr", "create"), ("sales create --r", "--room\n--rate")])
def test_commands_and_options_complete_in_a_shell(words: str, expected: str, tmp_path: Path) -> None:
    asked = {
        "_HOLDFAST_COMPLETE": "complete_bash",
        "COMP_WORDS": f"holdfast {words}",
        "COMP_CWORD": str(words.count(" ") + 1),
    }
    assert Cli(tmp_path, variables=asked)().out.strip() == expected


def test_the_version_is_printed(tmp_path: Any) -> None:
    assert Cli(tmp_path)("--version").out == f"holdfast {__version__}\n"
