"""What is shown of a sale while it sells: one document, made at most twice a second however many watch.

Counts come from the ledger, so they are the same whichever process is asked, and cover all of them. If the ledger
cannot be asked, what was seen last is shown with the moment it was seen (`as_of`); health is of now, and of this
process.
"""

import asyncio
from collections import deque
from time import monotonic
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.bootstrap import House
from holdfast.counting import BOUNDS_MS, RETURNED, TOLD, TOOK
from holdfast.domain.histogram import quantile
from holdfast.domain.outcome import Outcome
from holdfast.domain.pool import Pool
from holdfast.domain.room import RoomState
from holdfast.domain.sale import RoomMode, Sale
from holdfast.errors import EngineError
from holdfast.http.console.figures import SaleFigures, figures_of
from holdfast.http.console.pacing import why
from holdfast.http.room_schemas import room_facts
from holdfast.http.sale_problems import sale_not_found
from holdfast.http.sale_schemas import operator_sale_body
from holdfast.http.times import rfc3339
from holdfast.ledger.queries import PoolView

FRESH_S = 0.5
# Answer times are told of about the last so many seconds.
WINDOW_S = 10.0
KEPT_MAX = 100
_ANSWERS = list(Outcome)
# What somebody who wants to reserve can be told, but for yes.
_REFUSALS = _ANSWERS[_ANSWERS.index(Outcome.KEY_REUSED) : _ANSWERS.index(Outcome.RESERVED)]

Body = dict[str, Any]


class _Seen(Struct, frozen=True):
    sale: Sale
    view: PoolView | None
    room: RoomState | None
    figures: SaleFigures


class _Watched(Struct, eq=False):
    figures: Body = {}
    until: float = 0.0
    looking: "asyncio.Task[Body] | None" = None
    # When, and how many answers had taken how long by then.
    waits: deque[tuple[float, list[int]]] = msgspec.field(default_factory=deque)


class LiveBoard:
    def __init__(self, house: House) -> None:
        self._house = house
        self._watched: dict[str, _Watched] = {}

    async def show(self, sale_id: str) -> Body:
        watched = self._watched.get(sale_id)
        if watched is None:
            if await self._house.catalogue.find(sale_id) is None:
                raise sale_not_found()
            if len(self._watched) >= KEPT_MAX:
                self._watched.clear()
            watched = self._watched.setdefault(sale_id, _Watched())
        if watched.until > monotonic():
            return watched.figures | self._health()
        if watched.looking is None:
            watched.looking = asyncio.create_task(self._look(sale_id, watched))
        # Shielded: whoever leaves takes nobody else along.
        return await asyncio.shield(watched.looking) | self._health()

    async def _look(self, sale_id: str, watched: _Watched) -> Body:
        try:
            seen = await self._see(sale_id)
            watched.figures = self._figures(seen, watched)
            watched.until = monotonic() + FRESH_S
        except EngineError:
            if not watched.figures:
                raise
        finally:
            watched.looking = None
        return watched.figures

    async def _see(self, sale_id: str) -> _Seen:
        house = self._house
        sale = await house.catalogue.find(sale_id)
        if sale is None:
            raise sale_not_found()
        figures, view = await asyncio.gather(
            house.database.read(lambda c: figures_of(c, sale.sku_id, house.database.now_ms(c))),
            house.lookout.look(sale.sku_id),
        )
        room = None if sale.room.mode is RoomMode.OFF else await house.board.find(sale_id)
        return _Seen(sale, view, room, figures)

    def _figures(self, seen: _Seen, watched: _Watched) -> Body:
        figures, pool = seen.figures, None if seen.view is None else seen.view.pool
        returned = seen.view.next_return_at if seen.view is not None else None
        return {
            "as_of": rfc3339(figures.at),
            "sale": operator_sale_body(seen.sale, pool, figures.at),
            "stock": None if pool is None else _stock(pool, figures),
            "next_return_at": None if returned is None else rfc3339(returned),
            "attempts": _attempts(figures),
            "returned_units": {name: figures.counts.get(RETURNED + name, 0) for name in _RETURNS},
            "answer_ms": _answer_ms(watched, figures),
            "settlement": _settlement(figures),
            "room": None if seen.room is None else _room(seen.sale, seen.room),
            "parked": dict(figures.parked),
            "drift": self._drift(seen.sale.sku_id),
            "turned_away": _turned_away(figures),
        }

    def _drift(self, sku_id: str) -> Body | None:
        report = self._house.engine.reconciler.reports.get(sku_id)
        if report is None:
            return None
        gate, ledger = report.pool, report.ledger.pool
        return {
            "ok": report.finding is None,
            "finding": report.finding,
            "checked_at": rfc3339(report.checked_at),
            "journal_lag": report.journal_lag,
            "units_apart": 0 if report.shards else abs(gate.held - ledger.held) + abs(gate.sold - ledger.sold),
        }

    def _health(self) -> Body:
        return {"health": load_of(self._house)}


def load_of(house: House) -> Body:
    """How this process is doing."""
    door, limiter = house.door, house.door.shedder.limiter
    return {
        "not_answering": door.open_breakers,
        "switched_off": door.shedder.switched_off,
        "agents_ended": house.agents.ended,
        "under_way": limiter.in_flight,
        "under_way_max": round(limiter.limit),
    }


_RETURNS = ("expired", "cancelled", "failed")


def _stock(pool: Pool, figures: SaleFigures) -> Body:
    """Settling units are held, too; the ledger knows which, a moment before or after the gate."""
    settling = min(figures.settling_units + figures.parked_units, pool.held)
    return {
        "total": pool.total,
        "available": pool.available,
        "held": pool.held - settling,
        "settling": settling,
        "sold": pool.sold,
    }


def _attempts(figures: SaleFigures) -> Body:
    told = {outcome: figures.counts.get(TOLD + outcome, 0) for outcome in Outcome}
    refused = {outcome: told[outcome] for outcome in _REFUSALS if told[outcome]}
    granted, repeated = told[Outcome.RESERVED], told[Outcome.REPLAYED]
    return {
        "total": granted + repeated + sum(refused.values()),
        "granted": granted,
        "repeated": repeated,
        "refused": refused,
    }


def _answer_ms(watched: _Watched, figures: SaleFigures) -> Body:
    now = monotonic()
    took = [figures.counts.get(f"{TOOK}{index}", 0) for index in range(len(BOUNDS_MS) + 1)]
    while len(watched.waits) > 1 and watched.waits[0][0] < now - WINDOW_S:
        watched.waits.popleft()
    watched.waits.append((now, took))
    first = watched.waits[0][1]
    lately = [after - before for before, after in zip(first, took, strict=True)]
    return {"p50": _quantile(lately, 0.5), "p99": _quantile(lately, 0.99), "answers": sum(lately)}


def _quantile(lately: list[int], share: float) -> float | None:
    found = quantile(BOUNDS_MS, lately, share)
    return None if found is None else round(found, 1)


def _settlement(figures: SaleFigures) -> Body:
    oldest = figures.oldest_settlement_at
    return {"open": figures.open_settlements, "oldest_s": 0 if oldest is None else max(figures.at - oldest, 0) / 1000}


def _room(sale: Sale, room: RoomState) -> Body:
    return room_facts(sale, room) | {"inside": max(room.called, 0) + max(room.passes, 0), "why": why(room)}


def _turned_away(figures: SaleFigures) -> Body:
    """Before anything was decided, and whatever they wanted."""
    return {
        kind: sum(number for name, number in figures.of_server.items() if name.startswith(f"{kind}."))
        for kind in ("shed", "limited")
    }
