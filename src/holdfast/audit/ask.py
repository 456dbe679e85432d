"""The use case behind `holdfast audit` and `GET /v1/ops/audit`."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from holdfast.audit.in_line import moments_in_line
from holdfast.audit.refusal import NOBODY
from holdfast.audit.room_story import RoomStory, read_rooms
from holdfast.audit.search import Question, Refusals, search
from holdfast.audit.sharing import search_shared
from holdfast.audit.summary import summarise
from holdfast.audit.timeline import Known, Moment, merge, read_ledger, sku_of_sale
from holdfast.ledger.stock.shared_reads import Ledger

# Shed requests this close to one of the buyer's moments may have been theirs.
AROUND_MS = 5_000


class Timeline(Struct, frozen=True):
    owner_id: str
    moments: list[Moment]
    refusals: dict[str, int]
    unreadable: list[str]
    summary: str = ""
    # Requests of all buyers that were shed in this period, by reason.
    shed: dict[str, int] = {}


async def ask(database: Ledger, directory: Path, question: Question) -> Timeline:
    """What happened to a buyer: in all pools, in one pool, or in the pool of a sale."""
    if question.sale_id is not None and question.sku_id is None:
        sale_id = question.sale_id
        sku_id = await database.read(lambda c: sku_of_sale(c, sale_id))
        question = replace(question, sku_id=sku_id)
    # An unknown sale has no reservations, but attempts on it may have been refused.
    is_unknown = question.sale_id is not None and question.sku_id is None
    known, story = Known([], {}), RoomStory([], [])
    if not is_unknown:
        now = time.time_ns() // 1_000_000
        known, story = await database.read(lambda c: (read_ledger(c, question), read_rooms(c, question, now)))
    refusals = await _search(database, directory, question)
    moments = merge(refusals, known, question.limit, moments_in_line(story, question))
    shed = await _shed(database, directory, question, moments)
    summary = summarise(story, moments)
    return Timeline(question.owner_id, moments, refusals.counts, refusals.unreadable, summary, shed)


async def _search(database: Ledger, directory: Path, question: Question) -> Refusals:
    """Searches the files of this server, and the shared refusals of the others."""
    here, elsewhere = await asyncio.gather(
        asyncio.to_thread(search, directory, question), search_shared(database, directory, question)
    )
    return here.with_others(elsewhere, question.limit)


async def _shed(database: Ledger, directory: Path, question: Question, moments: Sequence[Moment]) -> dict[str, int]:
    if not moments:
        return {}
    since = question.since_ms if question.since_ms is not None else moments[0].at - AROUND_MS
    until = question.until_ms if question.until_ms is not None else moments[-1].at + AROUND_MS
    counted = Question(NOBODY, since_ms=since, until_ms=until, limit=1)
    return (await _search(database, directory, counted)).counts
