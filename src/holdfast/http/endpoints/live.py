"""The live view of a sale: one document, built at most twice a second for any number of viewers.

Counts come from the ledger, so they are the same whichever process is asked, and cover all of them. If the ledger
cannot be read, the last figures are shown with the time they were read (`as_of`); health is of now, and of this
process.
"""

import asyncio
from collections import deque
from time import monotonic

import msgspec
from msgspec import Struct, structs
from sqlalchemy import Connection

from holdfast.bootstrap.services import Services
from holdfast.domain.room.pacing import why
from holdfast.domain.room.room import RoomState
from holdfast.domain.sale.sale import RoomMode, Sale
from holdfast.domain.stock.pool import Pool
from holdfast.errors import EngineError
from holdfast.http.contract import problems
from holdfast.http.contract.message import Answer, Request, json
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.operate import (
    AnswerTimesOut,
    DriftOut,
    LiveOut,
    LiveRoomOut,
    SettlementOut,
    StockOut,
)
from holdfast.http.contract.schemas.sales import OperatorSaleOut
from holdfast.http.endpoints.health import load_of
from holdfast.http.endpoints.ops.counted import answer_times_of, attempts_of, returned_of, took_of, turned_away_of
from holdfast.http.protection.shedding import Shedder
from holdfast.ledger.sales.figures import SaleFigures, figures_of
from holdfast.ledger.stock.queries import PoolView
from holdfast.runtime.times import optional_rfc3339, rfc3339
from holdfast.settlement.parked import count_parked

FRESH_S = 0.5
# Answer times cover about this many seconds.
WINDOW_S = 10.0
KEPT_MAX = 100


class _Seen(Struct, frozen=True):
    sale: Sale
    view: PoolView | None
    room: RoomState | None
    figures: SaleFigures
    parked: dict[str, int]


class _Watched(Struct, eq=False):
    shown: LiveOut | None = None
    until: float = 0.0
    looking: "asyncio.Task[LiveOut] | None" = None
    # When, and how many answers had taken how long by then.
    waits: deque[tuple[float, list[int]]] = msgspec.field(default_factory=deque)


class LiveEndpoint:
    def __init__(self, services: Services, shedder: Shedder) -> None:
        self._services, self._shedder = services, shedder
        self._watched: dict[str, _Watched] = {}

    async def live(self, _request: Request, sale_id: str) -> Answer:
        shown = await self._show(sale_id)
        return json(structs.replace(shown, health=load_of(self._services, self._shedder)))

    async def _show(self, sale_id: str) -> LiveOut:
        watched = self._watched.get(sale_id)
        if watched is None:
            await self._find(sale_id)
            if len(self._watched) >= KEPT_MAX:
                self._watched.clear()
            watched = self._watched.setdefault(sale_id, _Watched())
        if watched.shown is not None and watched.until > monotonic():
            return watched.shown
        if watched.looking is None:
            watched.looking = asyncio.create_task(self._look(sale_id, watched))
        # Shielded: a client that disconnects must not cancel it for the others.
        return await asyncio.shield(watched.looking)

    async def _find(self, sale_id: str) -> Sale:
        sale = await self._services.catalogue.find(sale_id)
        if sale is None:
            raise Problem(problems.SALE_NOT_FOUND)
        return sale

    async def _look(self, sale_id: str, watched: _Watched) -> LiveOut:
        try:
            shown = watched.shown = self._shown(await self._see(sale_id), watched)
            watched.until = monotonic() + FRESH_S
        except EngineError:
            if watched.shown is None:
                raise
            return watched.shown
        finally:
            watched.looking = None
        return shown

    async def _see(self, sale_id: str) -> _Seen:
        services, sale = self._services, await self._find(sale_id)

        def read(connection: Connection) -> tuple[SaleFigures, dict[str, int]]:
            now = services.database.now_ms(connection)
            return figures_of(connection, sale.sku_id, now), count_parked(connection)

        (figures, parked), view = await asyncio.gather(services.reads.read(read), services.pool_reads.look(sale.sku_id))
        room = None if sale.room.mode is RoomMode.OFF else await services.room_snapshot.find(sale.line_id)
        return _Seen(sale, view, room, figures, parked)

    def _shown(self, seen: _Seen, watched: _Watched) -> LiveOut:
        figures, view = seen.figures, seen.view
        pool = None if view is None else view.pool
        return LiveOut(
            as_of=rfc3339(figures.at),
            sale=OperatorSaleOut.of_pool(seen.sale, pool, figures.at, self._services.control.cell),
            stock=None if pool is None else _stock(pool, figures),
            next_return_at=None if view is None else optional_rfc3339(view.next_return_at),
            attempts=attempts_of(figures.counts),
            returned_units=returned_of(figures.counts),
            answer_ms=_answer_times(watched, figures),
            settlement=_settlement(figures),
            room=None if seen.room is None else _room(seen.sale, seen.room),
            parked=seen.parked,
            drift=self._drift(seen.sale.sku_id, figures.at),
            turned_away=turned_away_of(figures.of_server),
            health=load_of(self._services, self._shedder),
        )

    def _drift(self, sku_id: str, now: int) -> DriftOut | None:
        reconciler = self._services.engine.reconciler
        report = reconciler.reports.get(sku_id)
        if report is None or "reconciler" not in self._services.agents.names:
            return None
        report = reconciler.judged(report, now)
        gate, ledger = report.pool, report.ledger.pool
        return DriftOut(
            report.finding is None,
            report.finding,
            rfc3339(report.checked_at),
            report.journal_lag,
            0 if report.shards else abs(gate.held - ledger.held) + abs(gate.sold - ledger.sold),
        )


def _stock(pool: Pool, figures: SaleFigures) -> StockOut:
    """Settling units are held, too; the ledger knows which, a moment before or after the gate."""
    settling = min(figures.settling_units + figures.parked_units, pool.held)
    return StockOut(pool.total, pool.available, pool.held - settling, settling, pool.sold)


def _answer_times(watched: _Watched, figures: SaleFigures) -> AnswerTimesOut:
    now = monotonic()
    took = took_of(figures.counts)
    while len(watched.waits) > 1 and watched.waits[0][0] < now - WINDOW_S:
        watched.waits.popleft()
    watched.waits.append((now, took))
    first = watched.waits[0][1]
    lately = [after - before for before, after in zip(first, took, strict=True)]
    return answer_times_of(lately)


def _settlement(figures: SaleFigures) -> SettlementOut:
    oldest = figures.oldest_settlement_at
    return SettlementOut(figures.open_settlements, 0 if oldest is None else max(figures.at - oldest, 0) / 1000)


def _room(sale: Sale, room: RoomState) -> LiveRoomOut:
    return LiveRoomOut.of(sale, room, inside=max(room.called, 0) + max(room.passes, 0), why=why(room))
