"""Commands that are imported when they are called.

Importing every command takes over a second, because among them they need the web server, the database drivers and the
tools that measure. `holdfast --help` and a mistyped command need none of that, only names and one line about each.
"""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class Unloaded(TyperCommand):
    """Stands for the command of `holdfast.cli.<name>` until somebody calls it."""

    def load(self) -> Any:
        assert self.name is not None
        loaded: typer.Typer = import_module(f"holdfast.cli.{self.name}").app
        is_single = [command.name for command in loaded.registered_commands] == [self.name]
        # Without a name of its own, an application lends its commands to the one it is added to.
        parent = typer.Typer(rich_markup_mode=None)
        parent.add_typer(loaded, name=None if is_single else self.name)
        return typer.main.get_group(parent).commands[self.name]


def group_of(commands: dict[str, str]) -> type[TyperGroup]:
    """A group with one command per module of `holdfast.cli`, each with the line that `--help` says about it."""

    class LazyGroup(TyperGroup):
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            for name, summary in commands.items():
                self.add_command(Unloaded(name, short_help=summary))

        # Typer's own types for a command are private, and changed between its versions.
        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, command, rest = super().resolve_command(ctx, args)
            return name, command.load() if isinstance(command, Unloaded) else command, rest

    return LazyGroup
