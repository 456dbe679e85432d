"""A sale over time. Counts come from the ledger, so they are those of all processes, on whichever machine is asked."""

import asyncio
from time import monotonic

from msgspec import Struct, convert
from sqlalchemy import Connection

from holdfast.bootstrap.services import Services
from holdfast.domain.sale.sale import Sale
from holdfast.http.contract import problems
from holdfast.http.contract.message import Answer, Request, json
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.operate import (
    HistoryPointOut,
    HistoryQuery,
    HistoryRoomOut,
    SaleHistoryOut,
    SaleMarkOut,
    SettlementOut,
)
from holdfast.http.endpoints.ops.counted import answer_times_of, attempts_of, returned_of, took_of, turned_away_of
from holdfast.ledger.sales.marks import SaleMark, marks_of
from holdfast.ledger.stock.history import LEVEL, Span, first_at, history_of
from holdfast.runtime.times import rfc3339

POINTS_MAX = 600
FRESH_S = 1.0
KEPT_MAX = 100
# Wider ones are multiples of what is kept.
WIDTHS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1_200, 3_600, 7_200, 14_400)


class _Read(Struct, frozen=True):
    now: int
    since: int
    seconds: int
    spans: list[Span]
    marks: list[SaleMark]


class SaleHistoryEndpoint:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._made: dict[tuple[str, int | None], tuple[float, SaleHistoryOut]] = {}
        # A crowd of operators shares what was read.
        self._reading = asyncio.Lock()

    async def history(self, _request: Request, sale_id: str, query: HistoryQuery) -> Answer:
        sale = await self._services.catalogue.find(sale_id)
        if sale is None:
            raise Problem(problems.SALE_NOT_FOUND)
        key = (sale_id, query.window_seconds)
        async with self._reading:
            until, made = self._made.get(key, (0.0, None))
            if made is None or until < monotonic():
                made = _shown(sale, await self._services.reads.read(lambda c: self._read(c, sale, query)))
                if len(self._made) >= KEPT_MAX:
                    self._made.clear()
                self._made[key] = (monotonic() + FRESH_S, made)
        return json(made)

    def _read(self, connection: Connection, sale: Sale, query: HistoryQuery) -> _Read:
        now = self._services.database.now_ms(connection)
        since = sale.created_at
        if query.window_seconds is not None:
            since = max(since, now - query.window_seconds * 1000)
        marks = [mark for mark in marks_of(connection, sale) if mark.at >= since]
        since = first_at(connection, sale.sku_id, since - since % 1000) or now
        seconds = width_of(now - since)
        since -= since % (seconds * 1000)
        spans = history_of(connection, sale.sku_id, since, now + 1000, seconds)
        return _Read(now, since, seconds, spans, marks)


def width_of(span_ms: int) -> int:
    return next((width for width in WIDTHS_S if span_ms / 1000 / width < POINTS_MAX), WIDTHS_S[-1])


def _shown(sale: Sale, read: _Read) -> SaleHistoryOut:
    points, levels = list[HistoryPointOut](), dict[str, int]()
    for span in read.spans:
        # A level that did not change has no row of its own.
        levels |= {name: number for name, number in span.counts.items() if name.startswith(LEVEL)}
        points.append(_point(span, levels))
    marks = [SaleMarkOut(rfc3339(mark.at), mark.kind, mark.by, mark.detail) for mark in read.marks]
    return SaleHistoryOut(sale.sale_id, rfc3339(read.now), rfc3339(read.since), read.seconds, points, marks)


def _point(span: Span, levels: dict[str, int]) -> HistoryPointOut:
    names = ("joined", "serving", "inside")
    in_room = [levels.get(LEVEL + name) for name in names]
    room = None if None in in_room else convert(dict(zip(names, in_room, strict=True)), HistoryRoomOut)
    return HistoryPointOut(
        at=rfc3339(span.at),
        seconds=span.seconds,
        attempts=attempts_of(span.counts),
        returned_units=returned_of(span.counts),
        turned_away=turned_away_of(span.counts),
        answer_ms=answer_times_of(took_of(span.counts)),
        room=room,
        settlement=SettlementOut(levels.get(f"{LEVEL}open", 0), levels.get(f"{LEVEL}oldest_ms", 0) / 1000),
    )
