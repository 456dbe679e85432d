"""What commands print: tables for people, one JSON object for programs."""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]

# Where people do not want colours they get none; otherwise the terminal decides (https://no-color.org).
COLOUR = False if os.environ.get("NO_COLOR") else None

# What was printed as JSON: one object, and whoever reads it expects no other.
_printed: list[Any] = []

# Wide enough for any table: what is piped on is read by programs, which do not expect a row to be folded.
_PIPED_WIDTH = 1000


def examples(*lines: str) -> str:
    """The end of a command's help. `\\b` keeps the lines as they are."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def begin_command() -> None:
    """Nothing was printed yet. Several commands run in one process only in tests."""
    _printed.clear()


def print_json(body: Any) -> None:
    _printed.append(body)
    typer.echo(json.dumps(body, indent=2 if sys.stdout.isatty() else None))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None, folded: str | None = None
) -> None:
    """Numbers are set to the right, everything else to the left. Where the terminal is narrow, `folded` gives way."""
    from rich.table import Table  # noqa: PLC0415 - takes longer to import than most commands take to run

    rows = [list(row) for row in rows]
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False)
    for index, column in enumerate(columns):
        is_number = any(isinstance(row[index], int | float) for row in rows)
        keep = folded is not None and column != folded
        table.add_column(column, justify="right" if is_number else "left", overflow="fold", no_wrap=keep)
    for row in rows:
        table.add_row(*[_cell(value) for value in row])
    console().print(table)


def print_facts(facts: Mapping[str, object]) -> None:
    """One fact per line, its name in front."""
    width = max(map(len, facts))
    for name, value in facts.items():
        typer.echo(f"{typer.style(name.ljust(width), bold=True)}  {_cell(value)}")


def console() -> "Console":
    from rich.console import Console  # noqa: PLC0415 - as above

    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def warn(message: str) -> None:
    """For people, on stderr: what was asked for is told all the same."""
    typer.secho("holdfast: ", fg="yellow", bold=True, err=True, nl=False, color=COLOUR)
    typer.echo(message, err=True)


def complain(message: str, hint: str = "") -> None:
    """For people on stderr; where a program asked for JSON and has got none yet, on stdout too."""
    if "--json" in sys.argv and not _printed:
        print_json({"error": message} | ({"hint": hint} if hint else {}))
    typer.secho("holdfast: ", fg="red", bold=True, err=True, nl=False, color=COLOUR)
    typer.echo(message, err=True)
    if hint:
        typer.echo(hint, err=True)
