"""How a sale stands now: one small document, the same for everyone, cacheable for a second.

It is made from the catalogue and a look at the pool, at most a few times a second for each sale however many ask, and
kept as bytes. If the pool cannot be read, the last known state is sent.
"""

import hashlib
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from holdfast.bootstrap.background import purger_of
from holdfast.bootstrap.services import Services
from holdfast.domain.room.room import RoomState, poll_in_line_ms
from holdfast.domain.sale.sale import Phase, RoomMode, Sale
from holdfast.domain.stock.pool import is_sku_id
from holdfast.errors import EngineError
from holdfast.http.contract import problems
from holdfast.http.contract.caching import cache_headers
from holdfast.http.contract.message import JSON, Answer, Request, encode
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.room import LotteryOut, NowOut, SoldOutOut
from holdfast.ledger.stock.queries import PoolView
from holdfast.runtime.times import optional_rfc3339, rfc3339
from holdfast.sales.sold_out import SoldOutStories

FRESH_S = 0.5
KEPT_MAX = 10_000
# When to poll again. People who wait for the opening return in time for it, but not all at once.
POLL_MS = {
    Phase.OPEN: 2_000,
    Phase.ALL_HELD: 2_000,
    Phase.SOLD_OUT: 10_000,
    Phase.PAUSED: 3_000,
    Phase.ENDED: 60_000,
}
# Sooner would exceed a buyer's rate limit (protection/limits.py).
SOONEST_POLL_MS, LATEST_POLL_MS = 2_000, 30_000


class _Kept(Struct, frozen=True):
    body: bytes
    headers: list[tuple[str, str]]
    etag: str
    until: float


class NowEndpoint:
    def __init__(self, services: Services) -> None:
        self._catalogue, self._pools, self._rooms = services.catalogue, services.pool_reads, services.room_snapshot
        self._kept: dict[str, _Kept] = {}
        self._lag_guard, self._stories = services.lag_guard, SoldOutStories(services.reads)
        self._is_purged = purger_of(services.settings).is_needed

    async def now(self, request: Request, sale_id: str) -> Answer:
        kept = self._kept.get(sale_id)
        if kept is None or kept.until <= monotonic():
            kept = await self._make(sale_id)
        known = request.header("if-none-match")
        if known is not None and kept.etag in known:
            return Answer(304, kept.headers, b"")
        return Answer(200, [JSON, *kept.headers], kept.body)

    async def _make(self, sale_id: str) -> _Kept:
        sale = await self._catalogue.find(sale_id) if is_sku_id(sale_id) else None
        if sale is None:
            raise Problem(problems.SALE_NOT_FOUND)
        try:
            view = await self._pools.look(sale.sku_id)
            room = None if sale.room.mode is RoomMode.OFF else await self._room_of(sale.line_id)
        except EngineError:
            last = self._kept.get(sale_id)
            if last is None:
                raise
            return last
        now = self._catalogue.now_ms()
        shown = now_out(sale, room, now, view)
        if shown.state is Phase.SOLD_OUT and view is not None:
            shown = replace(shown, sold_out=SoldOutOut.of(await self._stories.find(sale, view.pool.sold)))
        else:
            self._stories.forget(sale_id)
        body = encode(shown)
        etag = etag_of(body)
        kept_by_caches = cache_headers(sale_id, shown.state, is_purged=self._is_purged)
        headers = [*kept_by_caches, ("etag", etag), self._for_the_edge(sale, shown.state, now)]
        kept = _Kept(body, headers, etag, monotonic() + FRESH_S)
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept[sale_id] = kept
        return kept

    def _for_the_edge(self, sale: Sale, state: Phase, now: int) -> tuple[str, str]:
        """What a proxy needs to refuse on its own. `time` is the server's, because the proxy's clock may be wrong."""
        shed = ", shed" if self._lag_guard.is_shedding else ""
        return "holdfast-sale", f"state={state}, room={sale.room.mode}, time={now // 1000}{shed}"

    async def _room_of(self, line_id: str) -> RoomState:
        """Looks for a room that was just created, because the hash of its seed must be public before anyone joins."""
        return self._rooms.cached(line_id) or await self._rooms.find(line_id)


def etag_of(body: bytes) -> str:
    return f'"{hashlib.blake2b(body, digest_size=9).hexdigest()}"'


def now_out(sale: Sale, room: RoomState | None, now: int, view: PoolView | None) -> NowOut:
    phase = sale.phase(now, None if view is None else view.pool.availability)
    is_drawn = room is not None and (sale.room.mode is RoomMode.LOTTERY or room.entrants is not None)
    return NowOut(
        sale_id=sale.sale_id,
        state=phase,
        available_hint=None if view is None else view.pool.available,
        next_return_at=None if view is None else optional_rfc3339(view.next_return_at),
        opens_at=rfc3339(sale.starts_at),
        next_poll_ms=_poll_ms(phase, sale, room, now),
        serving=0 if room is None else room.serving,
        joined=0 if room is None else room.joined,
        rate_per_second=_rate(sale, room),
        lottery=LotteryOut.of(sale, room) if room is not None and is_drawn else None,
    )


def poll_ms(sale: Sale, room: RoomState, now: int) -> int:
    """When somebody in the queue may poll again."""
    return _poll_ms(sale.phase(now, None), sale, room, now)


def _poll_ms(phase: Phase, sale: Sale, room: RoomState | None, now: int) -> int:
    if phase not in POLL_MS:
        return _until_opening(sale.starts_at - now)
    if room is None or phase not in (Phase.OPEN, Phase.ALL_HELD):
        return POLL_MS[phase]
    return poll_in_line_ms(POLL_MS[phase], room.waiting, sale.room.pass_seconds)


def _rate(sale: Sale, room: RoomState | None) -> int:
    """How many are called per second now; before the opening, how many will be."""
    if room is None or room.advancer_state is None:
        return sale.room.rate_per_second
    return round(room.advancer_state.pace.rate_per_second)


def _until_opening(left_ms: int) -> int:
    """In whole seconds, so that the document does not change with every request."""
    wait = min(max(left_ms // 2, SOONEST_POLL_MS), LATEST_POLL_MS)
    return wait // 1_000 * 1_000
