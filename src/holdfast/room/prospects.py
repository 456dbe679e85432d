"""Whether a sale, or any sale of a drop, can still serve anyone who waits.

Once everything is sold and nothing is held that could return, it cannot. Each pool is read at most a few times a
second, however many callers there are. If the pool cannot be read, people may join and wait, which costs them nothing.
"""

from collections.abc import Awaitable, Callable, Iterable
from time import monotonic

from msgspec import Struct

from holdfast.domain.sale.sale import Phase, Sale
from holdfast.errors import EngineError
from holdfast.ledger.stock.queries import PoolView

FRESH_S = 0.5
KEPT_MAX = 10_000


class _Kept(Struct, frozen=True):
    phase: Phase
    until: float


class Prospects:
    def __init__(self, look: Callable[[str], Awaitable[PoolView | None]], now_ms: Callable[[], int]) -> None:
        self._look = look
        self._now_ms = now_ms
        self._kept: dict[str, _Kept] = {}

    async def are_gone(self, sales: Iterable[Sale]) -> bool:
        """Whether everything is permanently sold in all of these sales. A restock is noticed within `FRESH_S`."""
        phases = [await self._phase(sale) for sale in sales]
        return Phase.SOLD_OUT in phases and all(phase in (Phase.SOLD_OUT, Phase.ENDED) for phase in phases)

    async def _phase(self, sale: Sale) -> Phase:
        kept = self._kept.get(sale.sale_id)
        if kept is None or kept.until <= monotonic():
            kept = await self._see(sale)
        return kept.phase

    async def _see(self, sale: Sale) -> _Kept:
        try:
            view = await self._look(sale.sku_id)
        except EngineError:
            view = None
        phase = sale.phase(self._now_ms(), None if view is None else view.pool.availability)
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept[sale.sale_id] = kept = _Kept(phase, monotonic() + FRESH_S)
        return kept
