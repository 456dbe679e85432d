"""The contents of an archive: one manifest for each run that added to it.

After a run the archive has every event up to `upto_seq` that is older than `until_at`. Both only grow, so the last run
determines what the next one must add, in whatever order events arrived.
"""

from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.errors import SettingsError
from holdfast.ledger.archive.parquet import digest_of, sync
from holdfast.ledger.chain.links import Head

_encode = msgspec.json.Encoder(order="deterministic").encode


class ArchivedFile(Struct, frozen=True):
    """`path` is relative to the archive."""

    path: str
    table: str
    month: str
    rows: int
    sha256: str

    def damage_in(self, directory: Path) -> str | None:
        """What is wrong with the file; None if it is intact."""
        path = directory / self.path
        if not path.is_file():
            return "missing"
        return None if digest_of(path) == self.sha256 else "changed"


class ArchiveRun(Struct, frozen=True):
    number: int
    upto_seq: int
    until_at: int
    # Just before the first event that the run had to leave out; the next run begins there.
    resume_after: int
    archived_at: int
    files: list[ArchivedFile]
    # Of the copied history, up to `upto_seq`. Runs of earlier versions have none.
    head: Head = Head()

    def has(self, seq: int, at: int) -> bool:
        return seq <= self.upto_seq and at < self.until_at


def read_runs(directory: Path) -> list[ArchiveRun]:
    runs = []
    for file in sorted((directory / "runs").glob("*.json")):
        try:
            runs.append(msgspec.json.decode(file.read_bytes(), type=ArchiveRun))
        except msgspec.MsgspecError as exc:
            raise SettingsError(f"{file} is damaged: {exc}") from exc
    return runs


def write_run(directory: Path, run: ArchiveRun) -> None:
    """Written last: files without a manifest do not count, and the next run overwrites them. The manifest and all
    directories are on disk when this returns, because rows are deleted from the ledger afterwards."""
    place = directory / "runs"
    place.mkdir(parents=True, exist_ok=True)
    sync(directory)
    draft = place / f"{run.number:06}.draft"
    draft.write_bytes(msgspec.json.format(_encode(run)))
    sync(draft)
    draft.rename(draft.with_suffix(".json"))
    sync(place)
