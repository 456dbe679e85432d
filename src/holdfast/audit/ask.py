"""The use case behind `holdfast audit` and `GET /v1/ops/audit`."""

import asyncio
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.audit.search import Question, search
from holdfast.audit.timeline import Known, Moment, merge, read_ledger, sku_of_sale
from holdfast.ledger.stock.shared_reads import Ledger


class Timeline(Struct, frozen=True):
    owner_id: str
    moments: list[Moment]
    refusals: dict[str, int]
    unreadable: list[str]


async def ask(database: Ledger, directory: Path, question: Question) -> Timeline:
    """What happened to a buyer: in all pools, in one pool, or in the pool of a sale."""
    if question.sale_id is not None and question.sku_id is None:
        sale_id = question.sale_id
        sku_id = await database.read(lambda c: sku_of_sale(c, sale_id))
        question = replace(question, sku_id=sku_id)
    # An unknown sale has no reservations, but attempts on it may have been refused.
    is_unknown = question.sale_id is not None and question.sku_id is None
    known = await database.read(lambda c: read_ledger(c, question)) if not is_unknown else Known([], {})
    refusals = await asyncio.to_thread(search, directory, question)
    moments: list[Any] = merge(refusals, known, question.limit)
    return Timeline(question.owner_id, moments, refusals.counts, refusals.unreadable)
