"""Sales, at hand in every process that serves buyers.

What was written is read again every second, by a look at what has changed since; so a purchase needs no query. An id
that is not known is looked for, with everyone else's who asks meanwhile, in one query at a time: made-up ids cost the
database the same few queries whoever sends how many of them.

What is read here may be a second old. The gate is not: it has the window, the limits and the pause. And what a
reservation costs does not change any more from before the start on (`office.SETTLED_BEFORE_MS`).
"""

import asyncio
from bisect import insort
from collections.abc import Iterable
from functools import partial
from time import monotonic

import structlog
from sqlalchemy import Connection

from holdfast.domain.reservation import Reservation
from holdfast.domain.sale import Sale
from holdfast.errors import EngineError, Unavailable
from holdfast.ledger.database import Database
from holdfast.ledger.sale_lists import changed_sales, find_sales

log = structlog.get_logger()

REFRESH_S = 1.0
# A transaction may become visible a while after the moment it says it was written at, but no later than it may last.
OVERLAP_MS = 10_000
SALES_MAX = 10_000
# A crowd that asks for what is not there waits this long for a query, together.
MISS_PAUSE_S = 0.02
MISSES_MAX = 500


class Catalogue:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._sales: dict[str, Sale] = {}
        self._by_sku: dict[str, list[tuple[int, str]]] = {}
        self._newest = 0
        # The engine's clock less our own, so that states can be told by the clock that decides.
        self._clock_ahead_ms = 0.0
        self._missed: dict[str, asyncio.Future[Sale | None]] = {}
        self._seeking: asyncio.Task[None] | None = None

    async def run(self) -> None:
        while True:
            try:
                await self.refresh()
            except EngineError as exc:
                log.warning("catalogue_not_refreshed", error=str(exc))
            except Exception:
                log.exception("catalogue_not_refreshed")
            await asyncio.sleep(REFRESH_S)

    async def refresh(self) -> None:
        asked = monotonic()
        now, found = await self._database.read(self._read)
        self._clock_ahead_ms = now - (asked + monotonic()) / 2 * 1000
        for sale in found:
            self.put(sale)

    def _read(self, connection: Connection) -> tuple[int, list[Sale]]:
        found = changed_sales(connection, self._newest - OVERLAP_MS, limit=SALES_MAX)
        return self._database.now_ms(connection), found

    def now_ms(self) -> int:
        """About what the engine's clock says."""
        return int(monotonic() * 1000 + self._clock_ahead_ms)

    def put(self, sale: Sale) -> None:
        before = self._sales.get(sale.sale_id)
        if before is not None and before.updated_at >= sale.updated_at:
            return
        if before is None:
            insort(self._by_sku.setdefault(sale.sku_id, []), (sale.created_at, sale.sale_id))
        self._sales[sale.sale_id] = sale
        self._newest = max(self._newest, sale.updated_at)

    def at_hand(self, sale_id: str) -> Sale | None:
        return self._sales.get(sale_id)

    def sale_of(self, reservation: Reservation) -> Sale | None:
        """The sale its pool was in when it was made."""
        made_at = reservation.created_at
        for created_at, sale_id in reversed(self._by_sku.get(reservation.sku_id, ())):
            if created_at <= made_at:
                sale = self._sales[sale_id]
                return None if sale.closed_at is not None and sale.closed_at <= made_at else sale
        return None

    async def find(self, sale_id: str) -> Sale | None:
        sale = self._sales.get(sale_id)
        if sale is not None:
            return sale
        answer = self._missed.get(sale_id)
        if answer is None:
            loop = asyncio.get_running_loop()
            answer = self._missed[sale_id] = loop.create_future()
            if self._seeking is None:
                self._seeking = loop.create_task(self._seek())
        return await asyncio.shield(answer)

    async def _seek(self) -> None:
        while self._missed:
            await asyncio.sleep(MISS_PAUSE_S)
            asked = {sale_id: self._missed.pop(sale_id) for sale_id in list(self._missed)[:MISSES_MAX]}
            try:
                found = await self._database.read(partial(find_sales, sale_ids=list(asked)))
            except Exception as exc:
                _fail(asked.values(), exc)
                continue
            for sale in found:
                self.put(sale)
            for sale_id, answer in asked.items():
                answer.set_result(self._sales.get(sale_id))
        self._seeking = None


def _fail(answers: Iterable["asyncio.Future[Sale | None]"], exc: Exception) -> None:
    failure = exc if isinstance(exc, EngineError) else Unavailable(str(exc))
    for answer in answers:
        answer.set_exception(failure)
        answer.exception()  # Whoever asked may be gone; the failure is not theirs to collect.
