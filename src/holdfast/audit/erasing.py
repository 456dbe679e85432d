"""Erases a buyer from the segments of refusals, and from the refusals that servers have shared in the ledger.

A raw segment may have an active writer, which only ever appends. So the ID is overwritten in place, with the same
number of characters. A Parquet file is rewritten without the buyer's refusals. A raw segment that is archived in the
meantime is found as Parquet, because the directory is read again until no refusal of the buyer is found.
"""

import mmap
import os
import zlib
from contextlib import suppress
from pathlib import Path

import msgspec
from sqlalchemy import Connection

from holdfast.audit.engine import ARCHIVE, open_engine
from holdfast.audit.segments import DRAFT, archived, publish, raw
from holdfast.ledger.events.refusal_batches import all_batches, change_lines

_LOOKS = 5


def erase_refusals(directory: Path, buyer_id: str, *, trial: bool = False) -> int:
    """Returns how many refusals named the buyer."""
    if not directory.is_dir():
        return 0
    erased = 0
    for _ in range(_LOOKS):
        found = 0
        with suppress(FileNotFoundError):
            found = sum(_overwrite(path, buyer_id, trial) for path in raw(directory))
            found += sum(_rewrite(path, buyer_id, trial) for path in archived(directory))
        erased += found
        if trial or not found:
            break
    return erased


def erase_shared(connection: Connection, buyer_id: str, *, trial: bool = False) -> int:
    """Called after the files are erased, because files are shared again when they are finished."""
    mark, erased = _mark(buyer_id), 0
    for batch in all_batches(connection, buyer_id):
        lines = zlib.decompress(batch.lines).splitlines(keepends=True)
        left = [line for line in lines if mark not in line]
        erased += len(lines) - len(left)
        if len(left) < len(lines) and not trial:
            change_lines(connection, batch, zlib.compress(b"".join(left), 1) if left else None)
    return erased


def _mark(buyer_id: str) -> bytes:
    return b'"owner_id":' + msgspec.json.encode(buyer_id)


def _overwrite(path: Path, buyer_id: str, trial: bool) -> int:
    wanted = _mark(buyer_id)
    blank = b'"owner_id":"' + b"-" * (len(wanted) - len(b'"owner_id":""')) + b'"'
    count, at = 0, -1
    with path.open("rb" if trial else "r+b") as file:
        if not os.fstat(file.fileno()).st_size:
            return 0
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ if trial else mmap.ACCESS_WRITE) as content:
            while (at := content.find(wanted, at + 1)) >= 0:
                count += 1
                if not trial:
                    content[at : at + len(wanted)] = blank
            if count and not trial:
                content.flush()
    return count


def _rewrite(path: Path, buyer_id: str, trial: bool) -> int:
    with open_engine() as engine:
        files = [str(path)]
        [count] = engine.execute(f"SELECT count(*) FROM ({ARCHIVE}) WHERE owner_id = ?", [files, buyer_id]).fetchall()  # noqa: S608
        if not count[0] or trial:
            return int(count[0])
        draft = path.with_suffix(DRAFT)
        others = f"COPY (SELECT * FROM ({ARCHIVE}) WHERE owner_id <> ?) TO ? (FORMAT parquet, COMPRESSION zstd)"  # noqa: S608
        engine.execute(others, [files, buyer_id, str(draft)])
        publish(draft, path)
    return int(count[0])
