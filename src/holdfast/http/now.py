"""How a sale stands now: one small document, the same for everyone, cacheable for a second.

It is made from the catalogue and a look at the pool, at most a few times a second for each sale however many ask, and
kept as bytes. If the pool cannot be looked at, what was seen last is told.
"""

import hashlib
from time import monotonic

import msgspec
from msgspec import Struct

from holdfast.bootstrap import House
from holdfast.domain.pool import Availability, is_sku_id
from holdfast.domain.sale import Phase, Sale
from holdfast.errors import EngineError
from holdfast.http.requests import Answer, Request
from holdfast.http.sale_problems import sale_not_found
from holdfast.http.times import rfc3339

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
        except EngineError:
            last = self._told.get(sale_id)
            if last is None:
                raise
            return last
        pool = None if view is None else view.pool
        available, availability = (None, None) if pool is None else (pool.available, pool.availability)
        body = _encode(now_body(sale, self._house.catalogue.now_ms(), available, availability))
        told = _Told(body, f'"{hashlib.blake2b(body, digest_size=9).hexdigest()}"', monotonic() + FRESH_S)
        if len(self._told) >= KEPT_MAX:
            self._told.clear()
        self._told[sale_id] = told
        return told


def now_body(sale: Sale, now: int, available: int | None, availability: Availability | None) -> dict[str, object]:
    phase = sale.phase(now, availability)
    return {
        "sale_id": sale.sale_id,
        "state": phase,
        "available_hint": available,
        "opens_at": rfc3339(sale.starts_at),
        "next_poll_ms": POLL_MS.get(phase) or _until_opening(sale.starts_at - now),
        "serving": 0,
        "joined": 0,
        "rate_per_second": sale.room.rate_per_second,
    }


def _until_opening(left_ms: int) -> int:
    """In whole seconds, so that the document does not change with every look."""
    wait = min(max(left_ms // 2, SOONEST_POLL_MS), LATEST_POLL_MS)
    return wait // 1_000 * 1_000
