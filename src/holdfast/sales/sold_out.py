"""How sold-out sales went: read once for all requests, and cached.

The ledger may be a moment behind the pool. So what was read right after the last unit is read again soon, and what was
read an hour later is kept for half an hour: each time for half as long as the sale has been sold out.

When it fails. This is the least important part of a sale's facts, so no request waits long for the ledger; a late reply
is in the next response.
"""

import asyncio
from time import monotonic

from msgspec import Struct

from holdfast.domain.sale.sale import Sale
from holdfast.errors import EngineError
from holdfast.ledger.replicas.reads import LedgerReads
from holdfast.ledger.sales.sold_out import SoldOut, sold_out_story

SOONEST_S = 1.0
WAIT_S = 0.2
KEPT_PART = 0.5
KEPT_MAX = 1_000


class _Kept(Struct, frozen=True):
    story: SoldOut | None
    sold: int
    until: float


class SoldOutStories:
    def __init__(self, reads: LedgerReads) -> None:
        self._reads = reads
        self._kept: dict[str, _Kept] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}

    async def find(self, sale: Sale, sold: int) -> SoldOut | None:
        """`sold`: how many units the pool counts as sold. None if that is not known now."""
        kept = self._kept.get(sale.sale_id)
        if kept is None or kept.sold != sold or kept.until <= monotonic():
            reading = self._reading.get(sale.sale_id)
            if reading is None:
                reading = self._reading[sale.sale_id] = asyncio.create_task(self._read(sale, sold))
                reading.add_done_callback(lambda _: self._reading.pop(sale.sale_id))
            await asyncio.wait([reading], timeout=WAIT_S)
            kept = self._kept.get(sale.sale_id)
        return None if kept is None else kept.story

    def forget(self, sale_id: str) -> None:
        """There are units again."""
        self._kept.pop(sale_id, None)

    async def _read(self, sale: Sale, sold: int) -> None:
        try:
            story, now = await self._reads.read(lambda c: (sold_out_story(c, sale), self._reads.now_ms(c)))
        except EngineError:
            last = self._kept.get(sale.sale_id)
            story, now = None if last is None else last.story, 0
        since_s = 0.0 if story is None else (now - story.at) / 1000
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept[sale.sale_id] = _Kept(story, sold, monotonic() + max(since_s * KEPT_PART, SOONEST_S))
