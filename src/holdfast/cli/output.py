"""Command output: tables for people, one JSON object for programs."""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]

# NO_COLOR switches colours off; otherwise the terminal decides (https://no-color.org).
COLOUR = False if os.environ.get("NO_COLOR") else None

# Objects printed as JSON; callers expect exactly one.
_printed: list[Any] = []

# Wide enough for any table: programs that read piped output do not expect folded rows.
_PIPED_WIDTH = 1000


def examples(*lines: str) -> str:
    """The examples at the end of a command's help. `\\b` keeps the line breaks."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def begin_command() -> None:
    """Forget what was printed. Only tests run several commands in one process."""
    _printed.clear()


def print_json(body: Any) -> None:
    _printed.append(body)
    typer.echo(json.dumps(body, indent=2 if sys.stdout.isatty() else None))


def print_either(as_json: bool, body: Any, text: str) -> None:
    """The object for programs, or the sentence for people."""
    print_json(body) if as_json else typer.echo(text)


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None, folded: str | None = None
) -> None:
    """Numbers are right-aligned, everything else left-aligned. On a narrow terminal only the column `folded` wraps."""
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
    """One fact per line, prefixed with its name."""
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


def show_progress(text: str) -> None:
    """Replaces the progress line, only on a terminal. An empty text removes it."""
    if sys.stderr.isatty():
        typer.echo(f"\r\x1b[K{text}", err=True, nl=False)


def warn(message: str) -> None:
    """A warning for people, on stderr; the command still prints its result."""
    typer.secho("holdfast: ", fg="yellow", bold=True, err=True, nl=False, color=COLOUR)
    typer.echo(message, err=True)


def complain(message: str, hint: str = "") -> None:
    """An error on stderr; with --json also on stdout, unless an object was printed already."""
    if "--json" in sys.argv and not _printed:
        print_json({"error": message} | ({"hint": hint} if hint else {}))
    typer.secho("holdfast: ", fg="red", bold=True, err=True, nl=False, color=COLOUR)
    typer.echo(message, err=True)
    if hint:
        typer.echo(hint, err=True)


def fail(message: str, hint: str = "") -> NoReturn:
    """Complains and ends the command with 1."""
    complain(message, hint)
    raise typer.Exit(1)
