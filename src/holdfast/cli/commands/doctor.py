"""`holdfast doctor`."""

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.doctor.configuration import Shown
from holdfast.cli.doctor.examine import Examination, examine
from holdfast.cli.doctor.finding import Finding, Level
from holdfast.cli.doctor.production import BACKUPS, Production
from holdfast.cli.options import Data
from holdfast.cli.output import AsJson, console, examples, print_json

app = typer.Typer()

_MARKS = {Level.OK: ("✓", "+", "green"), Level.WARN: ("!", "!", "yellow"), Level.FAIL: ("✗", "x", "red")}
_NAME_WIDTH = 13
# Always shown: the most common mistake is looking at the wrong database.
_ALWAYS_SHOWN = ("data", "database_url")


@app.command(
    "doctor",
    epilog=examples(
        "holdfast doctor",
        "holdfast doctor --data /var/lib/holdfast",
        "holdfast doctor --production --url https://shop.example.com",
        "holdfast doctor --json | jq '.checks[] | select(.level != \"ok\")'",
    ),
)
def doctor(
    production: Annotated[
        bool, typer.Option("--production", help="Also check what a machine needs before it takes real money.")
    ] = False,
    url: Annotated[
        str | None, typer.Option(help="With --production: the address that buyers use.", metavar="URL")
    ] = None,
    backups: Annotated[Path, typer.Option(help="With --production: where backups are kept.", metavar="DIR")] = BACKUPS,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Check the setup and suggest fixes.

    Checks settings, database, clocks, durability, disk and limits; with --production also TLS, proxies, secrets, test
    settings, backups, a standby, fsync, memory, open files and time synchronisation. It changes nothing and never
    prints a secret. Exits with 0 if nothing failed (there may be warnings), else with 1.
    """
    examination = examine(data, Production(url, backups) if production else None)
    if as_json:
        print_json(examination.body())
    else:
        _print(examination)
    raise typer.Exit(0 if examination.is_ok else 1)


def _print(examination: Examination) -> None:
    shown = [s for s in examination.settings if s.source != "default" or s.name in _ALWAYS_SHOWN]
    for setting in shown:
        _print_setting(setting)
    if shown:
        typer.echo()
    for finding in examination.findings:
        _print_finding(finding)
    typer.echo()
    typer.echo(_summary(examination.findings))


def _print_setting(setting: Shown) -> None:
    source = typer.style(f"({setting.source})", dim=True)
    typer.echo(f"  {setting.name}: {setting.value}  {source}")


def _print_finding(finding: Finding) -> None:
    from rich.table import Table  # noqa: PLC0415 - keeps `doctor --json` fast

    mark, plain_mark, colour = _MARKS[finding.level]
    line = Table.grid(padding=(0, 1))
    line.add_column(style=colour, width=1)
    line.add_column(style="bold", width=_NAME_WIDTH)
    line.add_column(overflow="fold")
    line.add_row(_if_encodable(mark, plain_mark), finding.name, finding.found)
    console().print(line)
    if finding.fix:
        # Not wrapped, so that a long command can be copied.
        typer.secho(f"{' ' * (_NAME_WIDTH + 3)}{_if_encodable('→', '>')} {finding.fix}", fg="cyan")


def _if_encodable(text: str, plain: str) -> str:
    """The text, or a plain one for terminals that cannot encode it."""
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return plain
    return text


def _summary(findings: list[Finding]) -> str:
    count = Counter(finding.level for finding in findings)
    warned = f"{count[Level.WARN]} warning{'' if count[Level.WARN] == 1 else 's'}"
    if count[Level.FAIL]:
        return typer.style(f"{count[Level.FAIL]} failed, {warned}.", fg="red", bold=True)
    if count[Level.WARN]:
        return typer.style(f"Nothing failed, {warned}.", fg="yellow", bold=True)
    return typer.style("Everything is fine.", fg="green", bold=True)
