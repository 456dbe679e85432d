"""Purges the caches of a sale when it changes, and warms them before it opens.

A sale has changed if its row was written (PATCH, pause, resume, close), or if buyers see another phase of it (opened,
sold out, back in stock after a restock or a return). A second purge follows, because servers read a sale again only
after a moment: a server that had not seen the change may have filled the cache again after the first purge.
"""

from collections.abc import Awaitable, Callable
from math import inf
from time import monotonic

import structlog

from holdfast.caches.purging import Purger
from holdfast.caches.warming import Warmed, warm
from holdfast.domain.sale.sale import Phase, Sale, SaleState
from holdfast.errors import Unavailable
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.sale_lists import changed_sales
from holdfast.ledger.stock.shared_reads import LookAt
from holdfast.runtime.agent import Agent

log = structlog.get_logger()

INTERVAL_S = 0.5
# Longer than any server uses an earlier read.
AGAIN_S = 2.0
# Longer than a cache serves any response about a sale (`http/contract/caching.py`), even while servers are away.
CACHED_MS = 600_000
WARM_BEFORE_MS = 300_000
# After the cache could not be reached, or the server behind it.
WARM_AGAIN_S = 15.0
# As in `sales/catalogue.py`.
OVERLAP_MS = 10_000
SALES_MAX = 10_000

Warm = Callable[[str, str], Awaitable[list[Warmed]]]


class SaleWatcher:
    def __init__(
        self, database: Database, look_at: LookAt, purger: Purger, edge_url: str = "", warm_sale: Warm = warm
    ) -> None:
        self._database = database
        self._look_at = look_at
        self._purger = purger
        self._edge_url = edge_url
        self._warm = warm_sale
        self._sales: dict[str, Sale] = {}
        self._phases: dict[str, Phase] = {}
        # To be purged, and to be purged once more at a time.
        self._changed: set[str] = set()
        self._again: dict[str, float] = {}
        # When to warm a sale again; never, once it was.
        self._warm_at: dict[str, float] = {}
        self._newest = 0

    def agent(self) -> Agent[None]:
        return Agent("sale_watcher", self.pass_once, INTERVAL_S, longest_pass_s=120.0)

    async def pass_once(self) -> None:
        now, found = await self._database.read(
            lambda c: (self._database.now_ms(c), changed_sales(c, self._newest - OVERLAP_MS, limit=SALES_MAX))
        )
        written = [sale for sale in found if self._is_news(sale)]
        for sale in written:
            self._sales[sale.sale_id] = sale
            self._newest = max(self._newest, sale.updated_at)
        # Kept until they are purged: what comes next may fail.
        self._changed |= {sale.sale_id for sale in written if _may_be_cached(sale, now)}
        self._changed |= set(await self._phase_changes(now))
        await self._purge_all()
        await self._warm_soon(now)
        self._forget_closed()

    def _is_news(self, sale: Sale) -> bool:
        known = self._sales.get(sale.sale_id)
        return known is None or known.updated_at < sale.updated_at

    async def _phase_changes(self, now: int) -> list[str]:
        live = [sale for sale in self._sales.values() if sale.state is SaleState.READY and sale.starts_at <= now]
        views = await self._look_at({sale.sku_id for sale in live}) if live else {}
        changed = []
        for sale in live:
            view = views.get(sale.sku_id)
            if view is None or isinstance(view, Unavailable):
                continue
            phase = sale.phase(now, view.pool.availability)
            if self._phases.get(sale.sale_id, phase) is not phase:
                changed.append(sale.sale_id)
            self._phases[sale.sale_id] = phase
        return changed

    async def _purge_all(self) -> None:
        if not self._purger.is_needed:
            self._changed.clear()
            return
        due = {sale_id for sale_id, at in self._again.items() if at <= monotonic()}
        for sale_id in self._changed | due:
            purged = await self._purger.purge(sale_id)
            if not purged.is_complete:
                log.warning("cache_purge_failed", sale_id=sale_id, status=purged.cdn_status)
            if sale_id in self._changed or not purged.is_complete:
                self._again[sale_id] = monotonic() + AGAIN_S
            else:
                del self._again[sale_id]
            self._changed.discard(sale_id)

    async def _warm_soon(self, now: int) -> None:
        for sale in self._sales.values() if self._edge_url else ():
            is_due = self._warm_at.get(sale.sale_id, 0.0) <= monotonic()
            if is_due and 0 < sale.starts_at - now <= WARM_BEFORE_MS:
                self._warm_at[sale.sale_id] = monotonic() + WARM_AGAIN_S
                warmed = await self._warm(self._edge_url, sale.sale_id)
                if all(one.status == 200 for one in warmed):
                    self._warm_at[sale.sale_id] = inf
                cold = [one.path for one in warmed if not one.is_warm]
                log.info("cache_warmed", sale_id=sale.sale_id, files=len(warmed), cold=cold)

    def _forget_closed(self) -> None:
        """Forgets closed sales that were written a while ago, so that a later write counts as a change again."""
        for sale in [sale for sale in self._sales.values() if sale.state is SaleState.CLOSED]:
            if sale.updated_at < self._newest - OVERLAP_MS:
                self._sales.pop(sale.sale_id)
                self._phases.pop(sale.sale_id, None)


def _may_be_cached(sale: Sale, now: int) -> bool:
    """Excludes sales that ended long ago, all of which a newly started watcher would otherwise purge."""
    return sale.state is not SaleState.CLOSED or now - sale.updated_at < CACHED_MS
