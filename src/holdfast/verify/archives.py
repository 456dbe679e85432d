"""Archives match the ledger: their files are intact, and every event in them is in the history.

The hash of an event is in the chain, or was kept when the event was deleted. So no modified archive can match, and
nothing but the ledger has to be trusted.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, func, select

from holdfast.domain.chain.merkle import leaf_hash
from holdfast.ledger.archive.parquet import read_pages
from holdfast.ledger.archive.runs import ArchivedFile, ArchiveRun, read_runs
from holdfast.ledger.archive.writing import CONTENT, ENDS
from holdfast.ledger.chain.leaves import hashes_of
from holdfast.ledger.stock.pruning import PRUNED
from holdfast.ledger.tables.chain import pruned_events, redacted_events
from holdfast.ledger.tables.stock import events, reservations
from holdfast.verify.check import EXAMPLES_MAX, Finding, Level

Found = list[dict[str, Any]]

_decode = msgspec.json.Decoder(dict[str, Any]).decode
# Below the parameter limit of every engine.
_IDS = 5_000


def check_archives(connection: Connection, directory: Path) -> list[Finding]:
    runs = read_runs(directory)
    files = [(run, file) for run in runs for file in run.files]
    damaged = {file.path: wrong for _, file in files if (wrong := _damage(directory, file)) is not None}
    readable = [(run, file) for run, file in files if file.path not in damaged]
    rows = sum(file.rows for _, file in readable if file.table == events.name)
    differing, endings, archived = _compare_events(connection, directory, readable)
    others = list(_compare_reservations(directory, readable, endings))
    missing = _dropped_without(connection, runs, archived)
    return [
        _finding(
            "archive_files_intact", "Every file of the archive is as it was written.", len(files), [*damaged.values()]
        ),
        _finding("archive_in_history", "Every archived event is in the history, unchanged.", rows, differing),
        _finding("archive_as_recorded", "Every archived reservation ended as its events say.", len(endings), others),
        _finding(
            "archive_complete",
            "Events that were deleted since the archive began, and are not in it.",
            archived,
            missing,
            Level.NOTE,
        ),
    ]


def _damage(directory: Path, file: ArchivedFile) -> dict[str, Any] | None:
    wrong = file.damage_in(directory)
    return None if wrong is None else {"file": file.path, "wrong": wrong}


def _compare_events(
    connection: Connection, directory: Path, files: Sequence[tuple[ArchiveRun, ArchivedFile]]
) -> tuple[Found, dict[str, tuple[str, int]], int]:
    """The differences, how each archived reservation ended, and how many archived events the ledger has deleted."""
    differing: Found = []
    endings: dict[str, tuple[str, int]] = {}
    deleted = 0
    for _, file in files:
        for page in read_pages(directory / file.path) if file.table == events.name else ():
            known, kept = _known_hashes(connection, [row["seq"] for row in page])
            deleted += kept
            left = _left_by_erasures(connection, [row["seq"] for row in page])
            differing += [{"seq": row["seq"], "file": file.path} for row in page if not _is_known(row, known, left)]
            endings |= {row["reservation_id"]: (row["type"], row["quantity"]) for row in page if row["type"] in ENDS}
    return differing, endings, deleted


def _known_hashes(connection: Connection, seqs: Sequence[int]) -> tuple[dict[int, bytes], int]:
    """The hashes by number, and how many of these events are deleted except for their hash."""
    kept: dict[int, bytes] = {}
    for part in (seqs[at : at + _IDS] for at in range(0, len(seqs), _IDS)):
        found = select(pruned_events.c.seq, pruned_events.c.hash).where(pruned_events.c.seq.in_(part))
        kept |= {row.seq: bytes.fromhex(row.hash) for row in connection.execute(found)}
    return hashes_of(connection, sorted(set(seqs) - kept.keys())) | kept, len(kept)


def _left_by_erasures(connection: Connection, seqs: Sequence[int]) -> set[tuple[int, bytes]]:
    """The hashes of these events after a buyer was erased from them."""
    left = set[tuple[int, bytes]]()
    for part in (seqs[at : at + _IDS] for at in range(0, len(seqs), _IDS)):
        found = select(redacted_events.c.seq, redacted_events.c.hash).where(redacted_events.c.seq.in_(part))
        left |= {(row.seq, bytes.fromhex(row.hash)) for row in connection.execute(found)}
    return left


def _is_known(row: Mapping[str, Any], known: Mapping[int, bytes], left: set[tuple[int, bytes]]) -> bool:
    """Whether its hash is the ledger's, and its columns match the hashed content."""
    content, seq, digest = _decode(row[CONTENT]), row["seq"], leaf_hash(row[CONTENT].encode())
    return (known.get(seq) == digest or (seq, digest) in left) and all(
        row[name] == content.get(name) for name in row if name != CONTENT
    )


def _compare_reservations(
    directory: Path,
    files: Sequence[tuple[ArchiveRun, ArchivedFile]],
    endings: Mapping[str, tuple[str, int]],
) -> Iterator[dict[str, Any]]:
    for _, file in files:
        for page in read_pages(directory / file.path) if file.table == reservations.name else ():
            for row in page:
                recorded = endings.get(row["reservation_id"])
                if recorded != (f"reservation.{row['status']}", row["quantity"]):
                    yield {"reservation_id": row["reservation_id"], "file": file.path, "recorded": recorded}


def _dropped_without(connection: Connection, runs: Sequence[ArchiveRun], archived: int) -> Found:
    """Before the first run, events were deleted without an archive."""
    if not runs:
        return []
    since = events.c.type == PRUNED, events.c.seq > runs[0].upto_seq
    by = select(events.c.seq).where(*since)
    deleted = connection.execute(select(func.count()).where(pruned_events.c.pruned_by.in_(by))).scalar_one()
    return [{"deleted": deleted, "archived": archived}] if deleted > archived else []


def _finding(name: str, means: str, looked_at: int, found: Found, level: Level = Level.FAILURE) -> Finding:
    return Finding(name, means, level, looked_at, len(found), found[:EXAMPLES_MAX])
