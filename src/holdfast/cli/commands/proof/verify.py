"""`holdfast verify`."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec
import typer
from sqlalchemy import Connection

from holdfast.cli.ledger import shown_url
from holdfast.cli.options import Data, has_password, settings_from
from holdfast.cli.output import AsJson, examples, print_json, print_table, show_progress, warn
from holdfast.errors import SettingsError
from holdfast.ledger.chain.checkpoint import Checkpoint, parse_checkpoints
from holdfast.runtime.times import rfc3339
from holdfast.settings import Settings, load_settings
from holdfast.verify.archives import check_archives
from holdfast.verify.check import Check, Computed, Finding, Level
from holdfast.verify.history import History
from holdfast.verify.history import compare as compare_checkpoints
from holdfast.verify.inclusion import InclusionProof, check_inclusion, prove_inclusion
from holdfast.verify.prove import CHECKS, Proof, prove
from holdfast.verify.sandbox import Entry, compare, read_books
from holdfast.verify.snapshot import look

app = typer.Typer()

Url = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        metavar="URL",
        help="The ledger, or a copy: sqlite:///path or postgresql://…, without a password.",
    ),
]
Sandbox = Annotated[
    str | None,
    typer.Option("--against-sandbox", metavar="URL", help="Also compare with this payment sandbox's records."),
]
CheckpointFile = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="FILE",
        help="Also compare with checkpoints that were kept elsewhere: a copy of checkpoints.jsonl, or lines of it.",
    ),
]
ArchiveDirectory = Annotated[
    Path | None,
    typer.Option(
        "--archive",
        metavar="DIR",
        help="Also check what `holdfast archive` wrote there.  [default: HOLDFAST_ARCHIVE_DIRECTORY]",
        show_default=False,
    ),
]
PublicKey = Annotated[
    str | None,
    typer.Option("--public-key", metavar="HEX", help="The key that must have signed the checkpoints."),
]
Prove = Annotated[
    str | None,
    typer.Option(
        "--prove",
        metavar="RESERVATION_ID",
        help="Print a proof that this reservation is in the history of the last checkpoint, and check nothing else.",
    ),
]
ReceiptFile = Annotated[
    Path | None,
    typer.Option(
        "--receipt",
        metavar="FILE",
        help="Check a proof against the checkpoints, without a database. With --prove: the buyer's receipt, to go with "
        "the proof.",
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show every check, not only failures and notes.")]
Strict = Annotated[bool, typer.Option("--strict", help="Treat notes as failures.")]


@app.command(
    "verify",
    epilog=examples(
        "holdfast verify",
        "holdfast verify --verbose",
        "holdfast verify --database-url sqlite:////backups/holdfast.db",
        "holdfast verify --json | jq '.checks[] | select(.ok | not)'",
        "holdfast verify --checkpoint /mnt/elsewhere/checkpoints.jsonl",
        "holdfast verify --prove RESERVATION_ID \\",
        "    --checkpoint checkpoints.jsonl > proof.json",
        "holdfast verify --receipt proof.json --checkpoint checkpoints.jsonl",
    ),
)
def verify(
    database_url: Url = None,
    against_sandbox: Sandbox = None,
    checkpoint: CheckpointFile = None,
    archive: ArchiveDirectory = None,
    public_key: PublicKey = None,
    prove_id: Prove = None,
    receipt: ReceiptFile = None,
    strict: Strict = False,
    verbose: Verbose = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Prove from the ledger that nothing went wrong.

    Checks that nothing was oversold, nobody was charged twice, every charge has an order or a refund, every reservation
    ended once, limits and idempotency keys were honoured, and history is unchanged. Reads one snapshot, live or from a
    copy, and changes nothing. Exits 0 if every check passes, 1 if one fails. With --checkpoint it also finds history
    that was rewritten by someone with full access to the database (docs/PROOF.md).
    """
    checkpoints = [] if checkpoint is None else parse_checkpoints(_read(checkpoint), str(checkpoint), public_key)
    if (prove_id or receipt) and not checkpoints:
        raise typer.BadParameter("--prove and --receipt need --checkpoint")
    if receipt is not None and prove_id is None:
        _finish(Proof(check_inclusion(_read_proof(receipt), checkpoints), strict), str(checkpoint), as_json, verbose)
    settings = _settings(data, database_url)
    if prove_id is not None:
        print_json(msgspec.to_builtins(asyncio.run(_included(settings, prove_id, checkpoints, receipt))))
        return
    findings, history = asyncio.run(_look(settings, against_sandbox, checkpoints, _archive(settings, archive)))
    _finish(Proof(findings, strict, history), shown_url(settings), as_json, verbose)


def _finish(proof: Proof, place: str, as_json: bool, verbose: bool) -> NoReturn:
    if as_json:
        print_json(proof.body())
    else:
        _print(proof, place, verbose)
    raise typer.Exit(0 if proof.ok else 1)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as exc:
        raise SettingsError(f"{file} cannot be read: {exc.strerror}") from exc


def _read_proof(file: Path) -> InclusionProof:
    try:
        return msgspec.json.decode(_read(file), type=InclusionProof)
    except msgspec.MsgspecError as exc:
        raise SettingsError(f"{file} is not a proof that --prove has written: {exc}") from exc


async def _included(
    settings: Settings, reservation_id: str, checkpoints: Sequence[Checkpoint], receipt: Path | None
) -> InclusionProof:
    last = max(checkpoints, key=lambda each: each.links)
    text = None if receipt is None else _read(receipt).decode(errors="replace").strip()
    return await look(settings.database_url, lambda c: prove_inclusion(c, reservation_id, last, text))


def _settings(data: Path | None, database_url: str | None) -> Settings:
    if database_url is None:
        return settings_from(data)
    if has_password(database_url):
        warn(
            "every user of this machine sees the password in --database-url in the process list, and your shell keeps "
            "it; set HOLDFAST_DATABASE_URL, or database_url in holdfast.toml, instead"
        )
    # A copy has no Redis gate, whatever the settings say.
    return load_settings(data=data, database_url=database_url, redis_url="")


def _archive(settings: Settings, given: Path | None) -> Path | None:
    if given is not None and not given.is_dir():
        raise SettingsError(f"there is no archive at {given}")
    return given or (settings.archive_path if settings.has_archive and settings.archive_path.is_dir() else None)


async def _look(
    settings: Settings, sandbox_url: str | None, checkpoints: Sequence[Checkpoint], archive: Path | None
) -> tuple[list[Finding], History | None]:
    books = None if sandbox_url is None else await read_books(sandbox_url)
    try:
        return await look(settings.database_url, lambda connection: _prove(connection, books, checkpoints, archive))
    finally:
        show_progress("")


def _prove(
    connection: Connection, books: dict[str, Entry] | None, checkpoints: Sequence[Checkpoint], archive: Path | None
) -> tuple[list[Finding], History | None]:
    findings = prove(connection, _show_check)
    findings += [] if books is None else compare(connection, books)
    findings += [] if archive is None else check_archives(connection, archive)
    if not checkpoints:
        return findings, None
    finding, history = compare_checkpoints(connection, checkpoints)
    return [*findings, finding], history


def _show_check(number: int, check: Check | Computed) -> None:
    show_progress(f"{number + 1} of {len(CHECKS)}: {check.name}")


_MARKS = {Level.FAILURE: "✗", Level.OPEN: "…", Level.NOTE: "!"}


def _mark(finding: Finding) -> str:
    mark = _MARKS[finding.level] if finding.count else "✓"
    encoding = sys.stdout.encoding or "ascii"
    return mark if mark.encode(encoding, "ignore") else {"✓": "+", "✗": "x", "…": "~"}[mark]


def _print(proof: Proof, place: str, verbose: bool) -> None:
    if verbose:
        rows = [(_mark(f), f.name, f.looked_at, f.count, f.means) for f in proof.findings]
        print_table(["", "check", "checked", "found", "what it means"], rows, folded="what it means")
        typer.echo()
    for finding in proof.findings:
        if finding.count:
            _print_examples(finding)
    if proof.history is not None:
        typer.echo(_shown_history(proof.history))
    typer.echo(_summary(proof, place))


def _print_examples(finding: Finding) -> None:
    typer.secho(f"{_mark(finding)} {finding.name}", bold=True)
    typer.echo(f"    {finding.means}")
    for example in finding.examples:
        typer.echo("    " + ", ".join(f"{name} {json.dumps(value)}" for name, value in example.items()))
    if finding.count > len(finding.examples):
        typer.echo(f"    and {finding.count - len(finding.examples):,} more")
    typer.echo()


def _shown_history(history: History) -> str:
    if history.proven_at is None:
        return f"History: no checkpoint matches; {history.events_after:,} events are not proven."
    at = rfc3339(history.proven_at)
    return f"History: proven up to event {history.proven_seq:,} ({at}); {history.events_after:,} events came after it."


def _summary(proof: Proof, place: str) -> str:
    held = f"{sum(finding.ok for finding in proof.findings)} of {len(proof.findings)} checks hold in {place}"
    refuted = [finding.name for finding in proof.findings if not finding.ok]
    if refuted:
        return f"REFUTED: {held}; failed: {', '.join(refuted)}."
    if not proof.ok:
        return f"REFUTED: {held}, but there are notes and --strict is set."
    return f"PROVEN: {held}."
