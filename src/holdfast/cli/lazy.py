"""Commands that are imported when they are called.

Importing every command takes over a second, because together they need the web server, the database drivers and the
benchmark tools. `holdfast --help` and a mistyped command only need each command's name and summary.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class Unloaded(TyperCommand):
    """A placeholder for the command of the module `<package>.<name>` until it is called."""

    package = ""

    def load(self) -> Any:
        assert self.name is not None
        loaded: typer.Typer = import_module(f"{self.package}.{self.name}").app
        is_single = [command.name for command in loaded.registered_commands] == [self.name]
        # An application added without a name merges its commands into the parent.
        parent = typer.Typer(rich_markup_mode=None)
        parent.add_typer(loaded, name=None if is_single else self.name)
        return _in_plain_words(typer.main.get_group(parent).commands[self.name])


def _in_plain_words(command: Any) -> Any:
    """`SALE` and `--users N`, where Typer writes `{SALE}`, `SALE <str>` and `--users <int range>`."""
    for below in getattr(command, "commands", {}).values():
        _in_plain_words(below)
        # Whole in the list of commands, where click cuts off what is longer than a line.
        below.short_help = _first_sentence(below.help or "")
    for param in command.params:
        if param.param_type_name == "argument":
            param.display_type_rich = _no_type
            param.get_usage_pieces = partial(_plain_usage, param.get_usage_pieces)
        elif param.metavar is None and param.bare_type() in _NUMBERS:
            param.metavar = "N"
    return command


def _first_sentence(text: str) -> str:
    summary = " ".join(text.partition("\n\n")[0].split())
    return summary.partition(". ")[0].removesuffix(".") + "."


_NUMBERS = ("int", "float")


def _no_type(ctx: Any) -> None:
    del ctx


def _plain_usage(pieces: Callable[[Any], list[str]], ctx: Any) -> list[str]:
    return [piece.replace("{", "").replace("}", "") for piece in pieces(ctx)]


def group_of(commands: dict[str, str], package_of: Callable[[str], str]) -> type[TyperGroup]:
    """A group with one command per module. `commands` has their summaries, `package_of` their packages."""

    class LazyGroup(TyperGroup):
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            for name, summary in commands.items():
                command = Unloaded(name, short_help=summary)
                command.package = package_of(name)
                self.add_command(command)

        # Typer's command types are private and change between versions.
        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, command, rest = super().resolve_command(ctx, args)
            return name, command.load() if isinstance(command, Unloaded) else command, rest

        def invoke(self, ctx: Any) -> Any:
            try:
                return super().invoke(ctx)
            except typer.BadParameter as exc:
                exc.message = _without_library_words(exc.message)
                raise

    return LazyGroup


def _without_library_words(message: str) -> str:
    """`must be a valid integer`, where pydantic speaks of its input."""
    if message.startswith("Input should be "):
        return "must be " + message.removeprefix("Input should be ").partition(",")[0]
    return message.removeprefix("Value error, ")
