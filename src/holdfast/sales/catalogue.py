"""Caches sales in every process that serves buyers.

Changed sales are read again every second, so a purchase needs no query. Look-ups of unknown IDs are batched, one query
at a time (`runtime/batching.py`), so any number of made-up IDs costs the database the same few queries.

Cached data may be a second old. That is safe, because the gate enforces the window, the limits and the pause, and the
price is fixed before the start (`operations.SETTLED_BEFORE_MS`).
"""

from bisect import insort
from collections.abc import Sequence
from functools import partial
from itertools import islice
from time import monotonic

from sqlalchemy import Connection

from holdfast.domain.sale.drop import Drop, line_of
from holdfast.domain.sale.sale import Sale, SaleState
from holdfast.domain.stock.reservation import Reservation
from holdfast.errors import EngineError, Unavailable
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.drops import changed_drops, find_drop
from holdfast.ledger.sales.sale_lists import changed_sales, find_sales, is_in_sale
from holdfast.runtime.agent import Agent
from holdfast.runtime.batching import NOT_STARTED, ONE_QUEUE, KeyedBatcher, NotStarted
from holdfast.runtime.log import log_failure

REFRESH_S = 1.0
# A transaction becomes visible later than its timestamp, by at most the longest duration of a transaction.
OVERLAP_MS = 10_000
SALES_MAX = 10_000
# Requests for unknown IDs gather for this long, and one query looks for at most this many of them.
MISS_PAUSE_S = 0.02
MISSES_MAX = 500
# Above the number of requests that a process accepts.
CALLERS_MAX = 65_536


class Catalogue:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._sales: dict[str, Sale] = {}
        self._by_sku: dict[str, list[tuple[int, str]]] = {}
        # Pools without a sale, cached until the ledger is asked again.
        self._in_no_sale_until: dict[str, float] = {}
        self._newest = 0
        self._drops: dict[str, Drop] = {}
        self._by_drop: dict[str, list[tuple[int, str]]] = {}
        # The engine's clock minus our own, so that phases follow the clock that decides.
        self._clock_ahead_ms = 0.0
        self._misses: KeyedBatcher[str, Sale | None] = KeyedBatcher(
            self._find_missing, batch_max=CALLERS_MAX, queue_max=CALLERS_MAX, pause_s=lambda _: MISS_PAUSE_S
        )

    def agent(self) -> Agent[None]:
        return Agent("catalogue", self.refresh, REFRESH_S)

    async def refresh(self) -> None:
        asked = monotonic()
        now, found, drops = await self._database.read(self._read)
        self._clock_ahead_ms = now - (asked + monotonic()) / 2 * 1000
        for sale in found:
            self.put(sale)
        for drop in drops:
            self.put_drop(drop)

    def _read(self, connection: Connection) -> tuple[int, list[Sale], list[Drop]]:
        found = changed_sales(connection, self._newest - OVERLAP_MS, limit=SALES_MAX)
        newest_drop = max((drop.updated_at for drop in self._drops.values()), default=0)
        drops = changed_drops(connection, newest_drop - OVERLAP_MS, limit=SALES_MAX)
        return self._database.now_ms(connection), found, drops

    def now_ms(self) -> int:
        """The engine's time, approximately."""
        return int(monotonic() * 1000 + self._clock_ahead_ms)

    def put(self, sale: Sale) -> None:
        before = self._sales.get(sale.sale_id)
        if before is not None and before.updated_at >= sale.updated_at:
            return
        if before is None:
            insort(self._by_sku.setdefault(sale.sku_id, []), (sale.created_at, sale.sale_id))
            if sale.drop_id is not None:
                insort(self._by_drop.setdefault(sale.drop_id, []), (sale.created_at, sale.sale_id))
        self._sales[sale.sale_id] = sale
        self._newest = max(self._newest, sale.updated_at)

    def put_drop(self, drop: Drop) -> None:
        before = self._drops.get(drop.drop_id)
        if before is None or before.updated_at < drop.updated_at:
            self._drops[drop.drop_id] = drop

    async def find_drop(self, drop_id: str) -> Drop | None:
        if drop_id not in self._drops:
            found = await self._database.read(partial(find_drop, drop_id=drop_id))
            if found is not None:
                self.put_drop(found)
        return self._drops.get(drop_id)

    def sales_of_drop(self, drop_id: str) -> list[Sale]:
        """In the order in which they were created."""
        return [self._sales[sale_id] for _, sale_id in self._by_drop.get(drop_id, ())]

    async def line_of(self, sale: Sale) -> Sale:
        """The sale that its line is for: the sale itself, or all sales of its drop merged into one."""
        drop = None if sale.drop_id is None else await self.find_drop(sale.drop_id)
        return sale if drop is None else line_of(drop, self.sales_of_drop(drop.drop_id))

    def sold_to_line_of(self, sale: Sale) -> list[Sale]:
        """The sales that people in its line may buy from."""
        return [sale] if sale.drop_id is None else self.sales_of_drop(sale.drop_id)

    def cached(self, sale_id: str) -> Sale | None:
        return self._sales.get(sale_id)

    def all(self) -> list[Sale]:
        return list(self._sales.values())

    def has_sales_of(self, sku_id: str) -> bool:
        return sku_id in self._by_sku

    def newest_sale_of(self, sku_id: str) -> str | None:
        """The ID of the last sale that was created on this pool."""
        sales = self._by_sku.get(sku_id)
        return None if not sales else sales[-1][1]

    def drop_sale_of(self, sku_id: str) -> Sale | None:
        """The sale on this pool, if it is part of a drop."""
        sales = self._by_sku.get(sku_id)
        sale = None if not sales else self._sales[sales[-1][1]]
        return None if sale is None or sale.drop_id is None or sale.state is SaleState.CLOSED else sale

    async def learns_of_sale(self, sku_id: str) -> bool:
        """Whether another process has just created a sale on this pool; if so, it is cached. If the ledger does not
        answer, the cache is right: no sale can be created meanwhile either."""
        now = monotonic()
        if self._in_no_sale_until.get(sku_id, 0.0) > now:
            return False
        try:
            if await self._database.read(partial(is_in_sale, sku_id=sku_id)):
                await self.refresh()
                return True
        except EngineError as exc:
            log_failure("sale_lookup_failed", exc)
        if len(self._in_no_sale_until) >= SALES_MAX:
            self._in_no_sale_until.clear()
        self._in_no_sale_until[sku_id] = now + REFRESH_S
        return False

    def sale_of(self, reservation: Reservation) -> Sale | None:
        """The sale that its pool was in when the reservation was created."""
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
        return await self._misses.submit(ONE_QUEUE, sale_id)

    async def _find_missing(self, _queue: str, sale_ids: Sequence[str], /) -> list[Sale | NotStarted | None]:
        asked = dict.fromkeys(islice(dict.fromkeys(sale_ids), MISSES_MAX))
        try:
            found = await self._database.read(partial(find_sales, sale_ids=list(asked)))
        except Exception as exc:
            if not isinstance(exc, EngineError):
                log_failure("sale_lookup_failed", exc)
            raise Unavailable(str(exc)) from exc
        for sale in found:
            self.put(sale)
        return [self._sales.get(sale_id) if sale_id in asked else NOT_STARTED for sale_id in sale_ids]
