"""Shares the refusals of this server with the others, through the ledger, off the hot path.

The model. Once a second, the lines that this process has newly written to its segment become one row in the ledger,
compressed. When a segment is finished, all of it is written in rows by the owner's hash, which replace the others. So
each finished segment costs a search one row, and includes any lines that were missed before.

What happens when it fails. Nothing waits for it. While the ledger is unavailable, refusals are only in the files of
their server, and a finished segment is not archived for an hour, so that it can be shared when the ledger is back.
"""

import asyncio
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count, groupby
from operator import attrgetter
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from holdfast.audit.recorder import Recorder, Written
from holdfast.audit.refusal import NOBODY, Refusal
from holdfast.audit.search import Question, Refusals
from holdfast.audit.segments import segment_files
from holdfast.errors import EngineError
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.refusal_batches import (
    RefusalBatch,
    add_batches,
    bucket_of,
    find_batches,
    replace_batches,
)
from holdfast.ledger.stock.shared_reads import Ledger
from holdfast.ledger.tables.refusals import RECENT
from holdfast.runtime.agent import Agent

log = structlog.get_logger()

INTERVAL_S = 1.0
# A segment of this size covers the relevant part of a rush; the rest of a larger one stays in its file.
SHARED_MAX_BYTES = 64 * 1024**2
# How long a finished segment waits for the ledger before it is archived unshared.
SHARE_WITHIN_S = 3_600.0
# Fast, and compresses to a tenth of the size.
_LEVEL = 1


class _Line(Struct):
    owner_id: str
    at_ms: int


_read_line = msgspec.json.Decoder(_Line).decode
_read_refusal = msgspec.json.Decoder(Refusal).decode


class Sharer:
    """Shares the refusals that one process records."""

    def __init__(self, database: Database, recorder: Recorder) -> None:
        self._database, self._recorder = database, recorder
        self._numbers = count(time.time_ns() // 1_000)

    def agent(self) -> Agent[None]:
        return Agent("refusal_sharer", self.pass_once, INTERVAL_S)

    async def pass_once(self) -> None:
        taken = self._recorder.take_unshared()
        if not taken:
            return
        batches = await asyncio.to_thread(self._batches, taken)
        try:
            await self._database.write(lambda connection: add_batches(connection, batches))
        except EngineError as exc:
            # They are shared with the rest of their segment when it is finished.
            log.info("refusals_shared_later", error=str(exc))

    def _batches(self, taken: Sequence[Written]) -> list[RefusalBatch]:
        return [
            RefusalBatch(
                segment,
                RECENT,
                next(self._numbers),
                min(one.first_at for one in some),
                max(one.last_at for one in some),
                zlib.compress(b"".join(one.lines for one in some), _LEVEL),
            )
            for segment, some in ((name, list(group)) for name, group in groupby(taken, attrgetter("segment")))
        ]


async def share_finished(database: Database, segment: Path) -> bool:
    """Whether a finished raw segment may be archived: it was shared, or has waited long enough."""
    batches, age_s = await asyncio.to_thread(_whole, segment)
    try:
        await database.write(lambda connection: replace_batches(connection, segment.stem, batches))
    except EngineError as exc:
        is_late = age_s > SHARE_WITHIN_S
        log.warning("segment_not_shared", segment=segment.name, error=str(exc), is_late=is_late)
        return is_late
    return True


def _whole(segment: Path) -> tuple[list[RefusalBatch], float]:
    """Its content by the owners' hashes, and how long ago it was last written to."""
    lines: defaultdict[int, list[bytes]] = defaultdict(list)
    moments: defaultdict[int, list[int]] = defaultdict(list)
    with segment.open("rb") as file:
        for line in file.readlines(SHARED_MAX_BYTES):
            read = _line(line)
            if read is not None:
                bucket = bucket_of(read.owner_id)
                lines[bucket].append(line)
                moments[bucket].append(read.at_ms)
    batches = [
        RefusalBatch(segment.stem, bucket, 0, min(at), max(at), zlib.compress(b"".join(lines[bucket]), _LEVEL))
        for bucket, at in moments.items()
    ]
    return batches, time.time() - segment.stat().st_mtime


def _line(line: bytes) -> _Line | None:
    """None for the partial last line of a killed process."""
    try:
        return _read_line(line)
    except msgspec.MsgspecError:
        return None


async def search_shared(database: Ledger, directory: Path, question: Question) -> Refusals:
    """The refusals of servers whose segments are not in this directory."""
    ours = [path.stem for path in segment_files(directory)]
    window = (question.since_ms, question.until_ms)
    batches = await database.read(lambda connection: find_batches(connection, question.owner_id, *window, ours))
    return await asyncio.to_thread(_matching, batches, question)


def _matching(batches: Iterable[RefusalBatch], question: Question) -> Refusals:
    found = [refusal for batch in batches for refusal in _refusals_in(batch, question) if question.matches(refusal)]
    counts: defaultdict[str, int] = defaultdict(int)
    for refusal in found:
        counts[refusal.outcome] += refusal.quantity if refusal.owner_id == NOBODY else 1
    found.sort(key=attrgetter("at_ms"))
    return Refusals(found[-question.limit :], dict(counts), [])


def _refusals_in(batch: RefusalBatch, question: Question) -> list[Refusal]:
    """Decodes only lines that may belong to the owner."""
    mark = msgspec.json.encode({"owner_id": question.owner_id})[1:-1]
    lines = zlib.decompress(batch.lines).splitlines()
    return [_read_refusal(line) for line in lines if mark in line]
