"""How a sale stands now: one small document, the same for everyone, cacheable for a second.

It is made from the catalogue and a look at the pool, at most a few times a second for each sale however many ask, and
kept as bytes. If the pool cannot be looked at, what was seen last is told.
"""

import hashlib
from time import monotonic

import msgspec
from msgspec import Struct

from holdfast.bootstrap import House
from holdfast.domain.pool import is_sku_id
from holdfast.domain.room import RoomState, poll_in_line_ms
from holdfast.domain.sale import Phase, RoomMode, Sale
from holdfast.errors import EngineError
from holdfast.http.requests import Answer, Request
from holdfast.http.room_schemas import lottery_body
from holdfast.http.sale_problems import sale_not_found
from holdfast.http.times import rfc3339
from holdfast.ledger.queries import PoolView

FRESH_S = 0.5
KEPT_MAX = 10_000
CACHE = "public, max-age=1"
# When to look again. Those who wait for the opening come back in time for it, without all coming at once.
POLL_MS = {
    Phase.OPEN: 2_000,
    Phase.ALL_HELD: 2_000,
    Phase.SOLD_OUT: 10_000,
    Phase.PAUSED: 3_000,
    Phase.ENDED: 60_000,
}
# Sooner would be too often for a buyer (http/limits.py).
SOONEST_POLL_MS, LATEST_POLL_MS = 2_000, 30_000

_encode = msgspec.json.Encoder().encode


class _Told(Struct, frozen=True):
    body: bytes
    etag: str
    until: float


class NowBoard:
    def __init__(self, house: House) -> None:
        self._house = house
        self._told: dict[str, _Told] = {}

    async def now(self, request: Request, sale_id: str) -> Answer:
        told = self._told.get(sale_id)
        if told is None or told.until <= monotonic():
            told = await self._look(sale_id)
        caching = [("cache-control", CACHE), ("etag", told.etag)]
        if any(name == "if-none-match" and told.etag in value for name, value in request.wire.headers()):
            return Answer(304, caching, b"")
        return Answer(200, [("content-type", "application/json"), *caching], told.body)

    async def _look(self, sale_id: str) -> _Told:
        sale = await self._house.catalogue.find(sale_id) if is_sku_id(sale_id) else None
        if sale is None:
            raise sale_not_found()
        try:
            view = await self._house.lookout.look(sale.sku_id)
            room = None if sale.room.mode is RoomMode.OFF else await self._room_of(sale_id)
        except EngineError:
            last = self._told.get(sale_id)
            if last is None:
                raise
            return last
        body = _encode(now_body(sale, room, self._house.catalogue.now_ms(), view))
        told = _Told(body, f'"{hashlib.blake2b(body, digest_size=9).hexdigest()}"', monotonic() + FRESH_S)
        if len(self._told) >= KEPT_MAX:
            self._told.clear()
        self._told[sale_id] = told
        return told

    async def _room_of(self, sale_id: str) -> RoomState:
        """A room that was just made is looked for: the hash of its seed is out before anyone joins."""
        return self._house.board.at_hand(sale_id) or await self._house.board.find(sale_id)


def now_body(sale: Sale, room: RoomState | None, now: int, view: PoolView | None) -> dict[str, object]:
    phase = sale.phase(now, None if view is None else view.pool.availability)
    is_drawn = room is not None and (sale.room.mode is RoomMode.LOTTERY or room.entrants is not None)
    return {
        "sale_id": sale.sale_id,
        "state": phase,
        "available_hint": None if view is None else view.pool.available,
        "next_return_at": None if view is None or view.next_return_at is None else rfc3339(view.next_return_at),
        "opens_at": rfc3339(sale.starts_at),
        "next_poll_ms": _poll_ms(phase, sale, room, now),
        "serving": 0 if room is None else room.serving,
        "joined": 0 if room is None else room.joined,
        "rate_per_second": _rate(sale, room),
        "lottery": lottery_body(room) if room is not None and is_drawn else None,
    }


def poll_ms(sale: Sale, room: RoomState, now: int) -> int:
    """When whoever waits may look again."""
    return _poll_ms(sale.phase(now, None), sale, room, now)


def _poll_ms(phase: Phase, sale: Sale, room: RoomState | None, now: int) -> int:
    if phase not in POLL_MS:
        return _until_opening(sale.starts_at - now)
    if room is None or phase not in (Phase.OPEN, Phase.ALL_HELD):
        return POLL_MS[phase]
    return poll_in_line_ms(POLL_MS[phase], room.waiting, sale.room.pass_seconds)


def _rate(sale: Sale, room: RoomState | None) -> int:
    """How many are called per second now; before the opening, how many are to be."""
    if room is None or room.ushering is None:
        return sale.room.rate_per_second
    return round(room.ushering.pace.rate_per_second)


def _until_opening(left_ms: int) -> int:
    """In whole seconds, so that the document does not change with every look."""
    wait = min(max(left_ms // 2, SOONEST_POLL_MS), LATEST_POLL_MS)
    return wait // 1_000 * 1_000
