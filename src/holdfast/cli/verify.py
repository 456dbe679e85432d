"""`holdfast verify`."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy import Connection

from holdfast.cli.ledger import shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, print_json, print_table
from holdfast.settings import Settings, load_settings
from holdfast.verify.check import Check, Computed, Finding, Level
from holdfast.verify.prove import CHECKS, Proof, prove
from holdfast.verify.sandbox import Entry, compare, read_books
from holdfast.verify.snapshot import look

app = typer.Typer()

Url = Annotated[
    str | None,
    typer.Option(
        "--database-url", metavar="URL", help="The ledger: sqlite:///path or postgresql://…; a copy will do as well."
    ),
]
Sandbox = Annotated[
    str | None,
    typer.Option("--against-sandbox", metavar="URL", help="Compare with the books of this payment sandbox too."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Count notes as failures.")]


@app.command(
    "verify",
    epilog=examples(
        "holdfast verify",
        "holdfast verify --database-url sqlite:////backups/holdfast.db",
        "holdfast verify --json | jq '.checks[] | select(.ok | not)'",
    ),
)
def verify(
    database_url: Url = None,
    against_sandbox: Sandbox = None,
    strict: Strict = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Prove from the ledger alone that nothing went wrong.

    Nothing oversold, nobody charged twice, every charge an order or a refund, every reservation ended once, limits and
    keys kept. Reads one moment of the ledger, live or a copy, and changes nothing. Exits 0 if all of it holds, 1 if
    something is refuted.
    """
    settings = _settings(data, database_url)
    findings = asyncio.run(_look(settings, against_sandbox))
    proof = Proof(findings, strict)
    if as_json:
        print_json(proof.body())
    else:
        _print(proof, settings)
    raise typer.Exit(0 if proof.ok else 1)


def _settings(data: Path | None, database_url: str | None) -> Settings:
    if database_url is None:
        return settings_from(data)
    # Whatever else this machine is set up for: a copy has no gate in Redis.
    return load_settings(data=data, database_url=database_url, redis_url="")


async def _look(settings: Settings, sandbox_url: str | None) -> list[Finding]:
    books = None if sandbox_url is None else await read_books(sandbox_url)
    try:
        return await look(settings.database_url, lambda connection: _prove(connection, books))
    finally:
        _show_progress("")


def _prove(connection: Connection, books: dict[str, Entry] | None) -> list[Finding]:
    findings = prove(connection, _tell)
    return findings if books is None else [*findings, *compare(connection, books)]


def _tell(number: int, check: Check | Computed) -> None:
    _show_progress(f"{number + 1} of {len(CHECKS)}: {check.name}")


def _show_progress(text: str) -> None:
    """One line that is written over, for a person who waits; a file that keeps what was said has no use for it."""
    if sys.stderr.isatty():
        typer.echo(f"\r\x1b[K{text}", err=True, nl=False)


_MARKS = {Level.FAILURE: "✗", Level.OPEN: "…", Level.NOTE: "!"}


def _mark(finding: Finding) -> str:
    mark = _MARKS[finding.level] if finding.count else "✓"
    encoding = sys.stdout.encoding or "ascii"
    return mark if mark.encode(encoding, "ignore") else {"✓": "+", "✗": "x", "…": "~"}[mark]


def _print(proof: Proof, settings: Settings) -> None:
    rows = [(_mark(f), f.name, f.looked_at, f.count) for f in proof.findings]
    print_table(["", "check", "looked at", "found"], rows)
    for finding in proof.findings:
        if finding.count:
            _print_examples(finding)
    typer.echo()
    typer.echo(_summary(proof, shown_url(settings)))


def _print_examples(finding: Finding) -> None:
    typer.echo()
    typer.secho(f"{_mark(finding)} {finding.name}", bold=True)
    typer.echo(f"    {finding.means}")
    for example in finding.examples:
        typer.echo("    " + ", ".join(f"{name} {json.dumps(value)}" for name, value in example.items()))
    if finding.count > len(finding.examples):
        typer.echo(f"    and {finding.count - len(finding.examples):,} more")


def _summary(proof: Proof, place: str) -> str:
    refuted = [finding.name for finding in proof.findings if not finding.ok]
    if refuted:
        return f"REFUTED by {place}: {', '.join(refuted)}."
    if not proof.ok:
        return f"REFUTED by {place}: there are notes, and --strict was asked for."
    return f"PROVEN: all {len(proof.findings)} checks hold in {place}."
