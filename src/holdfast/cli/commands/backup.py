"""`holdfast backup`."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.bootstrap.backup.backup import back_up
from holdfast.cli.ledger import explained, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, print_json, show_progress
from holdfast.errors import SettingsError
from holdfast.runtime.log import set_up_logging
from holdfast.verify.check import Finding
from holdfast.verify.prove import Proof

app = typer.Typer()

Target = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE",
        help="The archive to write, .tar or .tar.gz.  [default: holdfast-backup-TIME.tar.gz here]",
        show_default=False,
    ),
]
NoVerify = Annotated[bool, typer.Option("--no-verify", help="Do not verify the backup.")]
NoAudit = Annotated[bool, typer.Option("--no-audit", help="Leave out the audit segments, which record refusals.")]


@app.command(
    "backup",
    epilog=examples("holdfast backup", "holdfast backup /mnt/backups/tonight.tar.gz --json"),
)
def backup(
    file: Target = None,
    no_verify: NoVerify = False,
    no_audit: NoAudit = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Back up a running server's ledger and keys into one file.

    The backup is of one moment, and nobody waits for it: SQLite's online backup, or on PostgreSQL COPY of all tables in
    one transaction. It has the generated keys, the checkpoints and the audit's segments too, so keep it as secret as
    they are. Then everything in it is verified: exits 1 if a check fails.
    """
    settings = settings_from(data)
    set_up_logging("error")
    target = file or Path(f"holdfast-backup-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar.gz")
    if not target.absolute().parent.is_dir():
        raise SettingsError(f"there is no directory {target.parent}")
    with explained(settings):
        try:
            made = asyncio.run(
                back_up(settings, target, verified=not no_verify, with_audit=not no_audit, progress=show_progress)
            )
        finally:
            show_progress("")
    if as_json:
        body = {"file": str(made.file), "bytes": made.bytes, "data_files": made.data_files}
        print_json(body | facts_of(made.manifest) | verified_body(made.findings))
    else:
        rows = sum(table.rows for table in made.manifest.tables.values())
        typer.echo(f"Backed up {shown_url(settings)} to {made.file} ({made.bytes:,} bytes).")
        typer.echo(f"{rows:,} rows of {len(made.manifest.tables)} tables, up to event {made.manifest.events:,}.")
        if settings.has_redis:
            typer.echo(journal_text(made.manifest.journal_lag))
        typer.echo(verified_text(made.findings))
    if not is_proven(made.findings):
        raise typer.Exit(1)


def facts_of(manifest: Any) -> dict[str, Any]:
    tables = {name: table.rows for name, table in manifest.tables.items()}
    return {
        "engine": manifest.engine,
        "version": manifest.version,
        "revision": manifest.revision,
        "created_at": manifest.created_at,
        "events": manifest.events,
        "tables": tables,
        "journal_lag": manifest.journal_lag,
    }


def journal_text(lag: int | None) -> str:
    if lag is None:
        return "Redis did not answer: how many journal entries the ledger lacked is not known."
    if lag == 0:
        return "The ledger had every journal entry of Redis when the backup began."
    return f"The ledger lacked {lag:,} journal entries in Redis when the backup began; they may not be in it."


def is_proven(findings: list[Finding] | None) -> bool:
    return findings is None or Proof(findings).ok


def verified_body(findings: list[Finding] | None) -> dict[str, Any]:
    return {"ok": is_proven(findings), "verify": None if findings is None else Proof(findings).body()}


def verified_text(findings: list[Finding] | None) -> str:
    if findings is None:
        return "Not verified: run holdfast verify on the restored ledger."
    failed = [finding.name for finding in findings if not finding.ok]
    if failed:
        return f"REFUTED: {', '.join(failed)}. Run holdfast verify for the details; the backup has it as it is."
    return f"PROVEN: {len(findings)} of {len(findings)} checks hold in it."
