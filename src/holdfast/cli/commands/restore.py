"""`holdfast restore`."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from holdfast.bootstrap.backup.backup import Restored, restore
from holdfast.cli.commands.backup import facts_of, is_proven, verified_body, verified_text
from holdfast.cli.ledger import explained, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, print_json, show_progress
from holdfast.runtime.log import set_up_logging
from holdfast.settings import Settings

app = typer.Typer()

Source = Annotated[Path, typer.Argument(metavar="FILE", help="An archive that holdfast backup has written.")]
NoVerify = Annotated[bool, typer.Option("--no-verify", help="Do not verify the restored ledger.")]


@app.command(
    "restore",
    epilog=examples(
        "holdfast restore tonight.tar.gz --data /var/lib/holdfast",
        "HOLDFAST_DATABASE_URL=postgresql://host/new holdfast restore old.tar.gz",
    ),
)
def restore_backup(file: Source, no_verify: NoVerify = False, data: Data = None, as_json: AsJson = False) -> None:
    """Restore a backup into an empty directory or database.

    The database must not exist yet, or have no tables; nothing is ever replaced. A server on the data directory must be
    stopped. The tables are upgraded to this version and everything is verified: exits 1 if a check fails. Servers that
    have seen more of this ledger than the backup has will refuse to write to it until holdfast recover has decided.
    """
    settings = settings_from(data)
    set_up_logging("error")
    with explained(settings):
        try:
            done = asyncio.run(restore(settings, file, verified=not no_verify, progress=show_progress))
        finally:
            show_progress("")
    if as_json:
        body = {"file": str(file), "data_files": done.data_files, "went_back": done.went_back}
        print_json(body | facts_of(done.manifest) | verified_body(done.findings))
    else:
        _print(settings, file, done)
    if not is_proven(done.findings):
        raise typer.Exit(1)


def _print(settings: Settings, file: Path, done: Restored) -> None:
    manifest = done.manifest
    typer.echo(f"Restored {file} ({manifest.created_at}, up to event {manifest.events:,}) into {shown_url(settings)}.")
    if done.data_files:
        typer.echo(f"Into {settings.data}: {', '.join(done.data_files)}.")
    typer.echo(verified_text(done.findings))
    for finding in done.went_back:
        typer.echo(f"It is older than what was seen of this ledger: {finding}. Next: holdfast recover")
