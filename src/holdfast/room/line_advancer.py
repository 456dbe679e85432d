"""Advances waiting rooms: opens them, draws the lottery, and calls buyers in at the set pace.

A few times a second (less often while nobody waits), for each running sale: read the stock as the gate has it; then, in
one transaction under the room's lock, count what became of the buyers called before, have `domain/room/pace.py` decide
how far to advance, and store both. The cursor only moves forward. Several may run: one holds the lease of a room, the
others skip it, and one that slept past its lease finds another name in the row before it writes anything.

The stock is read before the counts, so units taken in between would look free while their buyers no longer count as
inside. Units that were recorded as taken meanwhile are therefore subtracted. Too few are called rather than too many.

The lottery. Its list is closed in one short transaction at opening; the digest of the list is computed after that, in
portions, because it may take seconds. Until the draw is stored nobody is called, and the seed stays sealed. A sale with
a public value waits for an operator to enter it.

Staged arrivals (ledger/room/arrivals.py) are merged here, too, before anyone is called. After an outage of the store,
nobody is called and no list is closed until every server had time to stage its arrivals.

What happens when it fails. If the store or the gate does not answer, nobody is called, and everyone keeps their place.
"""

import secrets
from collections.abc import Iterable, Sequence
from math import inf
from time import monotonic

import structlog
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from holdfast.domain.room.lottery import SEED_BYTES, ListDigest, beacon_of
from holdfast.domain.room.pace import LATE_MS, Observation, Pace, admit, advance, begin, paused, with_rate
from holdfast.domain.room.room import AdvancerState, RoomState, grace_ms
from holdfast.domain.sale.sale import Phase, RoomMode, Sale, SaleState
from holdfast.domain.stock.pool import Pool
from holdfast.errors import EngineError, Unavailable
from holdfast.ledger.engine.database import Database
from holdfast.ledger.room.arrivals import MERGE_AFTER_MS, Staged, find_staged, find_staged_of, merge
from holdfast.ledger.room.counting import count_since, settlement_lag_ms
from holdfast.ledger.room.rooms import (
    SaleAndRoom,
    close_list,
    find_room,
    list_entries,
    live_rooms,
    lock_room,
    skip_undrawn_leavers,
    skipped_from,
    slowness_of,
    update_room,
    with_leavers,
)
from holdfast.ledger.stock.shared_reads import LookAt, Views
from holdfast.room.wakeup import EMPTY_S, QUIET_S, Wakeup
from holdfast.runtime.agent import Agent
from holdfast.runtime.log import log_failure
from holdfast.runtime.sealing import Sealer

log = structlog.get_logger()

STEP_S = 0.2
# Long compared to a step, and short for a crowd whose line advancer has died.
LEASE_MS = 3_000
# How long a read of the stock may be used; after a longer sleep it is read again.
STOCK_FRESH_S = 1.0
SLOWNESS_FRESH_MS = 2_000
ENTRIES_AT_ONCE = 2_000
# How many arrivals one transaction merges, and how long a pass continues with it.
MERGED_AT_ONCE, MERGE_S = 5_000, 1.0
# While nobody waits the stock is read this often, for the odds shown to the next buyer.
IDLE_MS = 5_000


class Looked(Struct, frozen=True):
    """The stock: in a drop, of all of its sales together, and available in those that sell now."""

    available: int
    held: int
    sold: int
    units_taken: int
    at: float


class Line(Struct, frozen=True):
    """The rules of a waiting line, and the sales its people may buy in."""

    sale: Sale
    sales: Sequence[Sale]

    @property
    def sku_ids(self) -> list[str]:
        return [sale.sku_id for sale in self.sales]

    def sells(self, sale: Sale, now: int) -> bool:
        """Whether the line can still be served. A line of one sale has its own rules for that."""
        return sale is self.sale or sale.phase(now, None) is Phase.OPEN


def _pool_in(views: Views, sale: Sale) -> Pool:
    view = views.get(sale.sku_id)
    if view is None or isinstance(view, Unavailable):
        raise view or Unavailable(f"the pool {sale.sku_id} is not there")
    return view.pool


class LineAdvancer:
    def __init__(self, database: Database, look_at: LookAt, sealer: Sealer, wakeup: Wakeup | None = None) -> None:
        self._database = database
        self._sealer = sealer
        self._look_at = look_at
        self._name = secrets.token_hex(8)
        self._wake = (wakeup or Wakeup()).subscribe()
        self._store_failed_at = float("-inf")

    def agent(self) -> Agent[float]:
        return Agent(
            "line_advancer", self.pass_once, STEP_S, rest_s=lambda rest_s: rest_s, wake=self._wake, least_rest_s=STEP_S
        )

    async def pass_once(self) -> float:
        """Returns how long to rest if nobody joins meanwhile."""
        try:
            now, found, staged = await self._database.read(self._look_around)
        except EngineError:
            self._store_failed_at = monotonic()
            raise
        waiting = {one.sale_id for one in staged if not one.is_due(now)}
        for one in staged:
            if one.is_due(now):
                await self._merge(one.sale_id)
        is_settling = monotonic() - self._store_failed_at < MERGE_AFTER_MS / 1_000
        for room in found:
            if not is_settling and room.sale.sale_id not in waiting and self._has_work(room, now):
                await self._attend_or_log(room)
        rest_s = min((_rest_s(room, now) for room in found), default=EMPTY_S)
        return min(rest_s, STEP_S) if staged or is_settling else rest_s

    def _look_around(self, connection: Connection) -> tuple[int, list[SaleAndRoom], list[Staged]]:
        return self._database.now_ms(connection), live_rooms(connection), find_staged(connection)

    async def _merge(self, sale_id: str) -> None:
        """In portions, so that people ahead are called meanwhile."""
        until, merged = monotonic() + MERGE_S, MERGED_AT_ONCE
        while merged == MERGED_AT_ONCE and monotonic() < until:
            merged = await self._database.write(lambda c: merge(c, sale_id, self._database, limit=MERGED_AT_ONCE))

    def _has_work(self, one: SaleAndRoom, now: int) -> bool:
        sale, room = one.sale, one.room
        if sale.phase(now, None) in (Phase.UPCOMING, Phase.ENDED):
            return False
        if room.advancer != self._name and room.leased_until > now:
            return False
        is_drawn = room.opened_at is not None and (room.entrants is None or room.is_drawn)
        return room.is_busy or not is_drawn or now - room.counted_at > IDLE_MS

    async def _attend_or_log(self, one: SaleAndRoom) -> None:
        """A room that fails must not block the others."""
        try:
            await self.attend(one.sale, one.sales)
        except Exception as exc:
            log_failure("line_advancer_room_failed", exc, sale_id=one.sale.sale_id)

    async def attend(self, sale: Sale, sales: Sequence[Sale] | None = None) -> None:
        """`sales`: those of a drop, if this is the line of one."""
        line = Line(sale, [sale] if sales is None else sales)
        looked = await self._look(line)
        room = await self._database.write(lambda c: self._step(c, line, looked))
        if room is not None and room.entrants is not None and not room.is_drawn:
            await self._draw(sale, room)

    async def _look(self, line: Line) -> Looked:
        room, now = await self._database.read(lambda c: (find_room(c, line.sale.sale_id), self._database.now_ms(c)))
        at = monotonic()
        views = await self._look_at(line.sku_ids)
        pools = {sale.sale_id: _pool_in(views, sale) for sale in line.sales}
        return Looked(
            sum(pools[sale.sale_id].available for sale in line.sales if line.sells(sale, now)),
            sum(pool.held for pool in pools.values()),
            sum(pool.sold for pool in pools.values()),
            0 if room is None else room.units_taken,
            at,
        )

    def _step(self, connection: Connection, line: Line, looked: Looked) -> RoomState | None:
        """The room after the step, or None if another process holds its lease."""
        sale = line.sale
        room, now = lock_room(connection, sale.sale_id), self._database.now_ms(connection)
        if room is None or (room.advancer != self._name and room.leased_until > now):
            return None
        if monotonic() - looked.at > STOCK_FRESH_S:
            return None
        changes: dict[str, object] = {
            "advancer": self._name,
            "leased_until": now + LEASE_MS,
            "fence": room.fence + (room.advancer != self._name),
        }
        left = None
        if room.opened_at is None and find_staged_of(connection, sale.sale_id) is not None:
            return None
        if room.opened_at is None:
            left = close_list(connection, sale.sale_id) if sale.room.mode is RoomMode.LOTTERY else None
            changes |= {"opened_at": now}
            if left is not None:
                changes |= {"entrants": room.joined - len(left), "unlisted": len(left), "left": 0}
            log.info("room_opened", sale_id=sale.sale_id, joined=room.joined)
        elif room.entrants is None or room.is_drawn:
            changes |= self._moved(connection, line, room, looked, now)
        update_room(connection, sale.sale_id, now, changes, left or ())
        moved = replace(room, **{name: value for name, value in changes.items() if name != "advancer_state"})
        return with_leavers(connection, moved)

    def _moved(
        self, connection: Connection, line: Line, room: RoomState, looked: Looked, now: int
    ) -> dict[str, object]:
        sale = line.sale
        before = room.advancer_state or _begun(sale, room, now)
        called_to, calls = _still_called(before.calls, room.called_to, now - grace_ms(sale.room.pass_seconds))
        found = count_since(connection, room, called_to, now)
        counted: dict[str, int] = {
            "passes_stale": room.passes_stale + found.passes_stale,
            "passes_lapsed": room.passes_lapsed + found.passes_lapsed,
            "calls_lapsed": room.calls_lapsed + called_to - room.called_to - found.answered,
            "answered": room.answered - found.answered,
            "called_to": called_to,
            "counted_at": now,
        }
        room = replace(room, **counted)
        slowness = slowness_of(connection, line.sku_ids, now - SLOWNESS_FRESH_MS)
        seen = observation(room, looked, slowness, settlement_lag_ms(connection, line.sku_ids, now))
        seen = replace(seen, late=_late(room, calls, now))
        pace = advance(wanted_pace(before.pace, sale, room), seen, now)
        moved = _skip(room, pace.serving - room.serving, skipped_from(connection, room) if room.left else ())
        if moved.serving > room.serving:
            calls = [*calls, (now, moved.serving)]
        advancer_state = AdvancerState(pace, seen, calls, looked.held, looked.sold, looked.units_taken)
        return {
            **counted,
            "serving": moved.serving,
            "left": room.left - moved.skipped,
            # People who left are not waited for.
            "answered": room.answered + moved.skipped,
            "admit": 0,
            "advancer_state": advancer_state.to_json(),
        }

    async def _draw(self, sale: Sale, room: RoomState) -> None:
        """The digest first, because it is published before the public value in the beacon is known."""
        value = "" if sale.room.beacon is None else room.beacon_value
        if room.digest is not None and value is None:
            return
        digest = room.digest or await self._digest(room)

        def store(connection: Connection) -> bool:
            current = lock_room(connection, room.sale_id)
            if current is None or current.is_drawn or current.fence != room.fence:
                return False
            if value is None:
                now = self._database.now_ms(connection)
                update_room(connection, room.sale_id, now, {"digest": digest, "seed": self._sealed_seed(current)})
                return False
            self._store_draw(connection, current, digest, beacon_of(digest, value))
            return True

        if await self._database.write(store):
            log.info("lottery_drawn", sale_id=room.sale_id, entrants=room.entrants)

    def _sealed_seed(self, room: RoomState) -> str:
        """With the digest, a seed in the open is a draw. Rooms of earlier releases have one."""
        is_open = len(room.seed) == 2 * SEED_BYTES
        return self._sealer.seal(bytes.fromhex(room.seed), room.sale_id) if is_open else room.seed

    def _store_draw(self, connection: Connection, room: RoomState, digest: str, beacon: str) -> None:
        """Opens the seal, in the transaction that fixes everything else the order follows from."""
        seed = room.seed if len(room.seed) == 2 * SEED_BYTES else self._sealer.open(room.seed, room.sale_id).hex()
        drawn = replace(room, digest=digest, seed=seed, beacon=beacon)
        left, now = skip_undrawn_leavers(connection, drawn), self._database.now_ms(connection)
        changes = {"digest": digest, "seed": seed, "beacon": beacon, "left": room.left + len(left)}
        update_room(connection, room.sale_id, now, changes, left)

    async def _digest(self, room: RoomState) -> str:
        """The list is closed, so it can be read in portions, and again by another process that takes over."""
        assert room.entrants is not None
        digest = ListDigest()
        for first in range(0, room.entrants, ENTRIES_AT_ONCE):
            digest.add(await self._entries(room, first, min(first + ENTRIES_AT_ONCE, room.entrants)))
        return digest.hexdigest()

    async def _entries(self, room: RoomState, first: int, last: int) -> list[str]:
        return await self._database.read(lambda c: list_entries(c, room, first, last))


class Moved(Struct, frozen=True):
    serving: int
    skipped: int


def _skip(room: RoomState, people: int, skipped: Iterable[int]) -> Moved:
    """The cursor after calling this many people, past the places whose buyers left."""
    serving, passed = room.serving, 0
    for place in skipped:
        before = place - serving
        if before > people:
            break
        people -= before
        serving, passed = place + 1, passed + 1
    return Moved(serving + people, passed)


def _rest_s(one: SaleAndRoom, now: int) -> float:
    """Until the room may need attention: not before it opens, and at every step while somebody waits."""
    phase = one.sale.phase(now, None)
    if phase is Phase.UPCOMING:
        return min(max((one.sale.starts_at - now) / 1_000, STEP_S), EMPTY_S)
    if phase is Phase.ENDED:
        return EMPTY_S
    return STEP_S if one.room.is_busy or one.room.opened_at is None else QUIET_S


def _begun(sale: Sale, room: RoomState, now: int) -> AdvancerState:
    target = float(room.rate_per_second or sale.room.rate_per_second)
    began = now if room.opened_at is None else room.opened_at
    pace = begin(target, sale.room.pass_seconds, began, float(sale.per_buyer_limit or 1))
    return AdvancerState(pace, Observation(room.waiting, 0, 0, 0))


def _still_called(calls: Sequence[tuple[int, int]], called_to: int, since: int) -> tuple[int, list[tuple[int, int]]]:
    """How far the calls reach that are too old to answer, and the calls that are not."""
    over = [serving for at, serving in calls if at <= since]
    return max([called_to, *over]), [(at, serving) for at, serving in calls if at > since]


def _late(room: RoomState, calls: Sequence[tuple[int, int]], now: int) -> int:
    """How many called people should have come by now. At least as many: those who came count as called early."""
    late_to, _ = _still_called(calls, room.called_to, now - LATE_MS)
    return max(room.called - (room.serving - late_to), 0)


def wanted_pace(pace: Pace, sale: Sale, room: RoomState) -> Pace:
    """The pace with the current settings of the sale and its operator."""
    target = float(room.rate_per_second or sale.room.rate_per_second)
    is_paused = room.paused or sale.paused or sale.state is SaleState.LOADING
    if target != pace.target_per_second:
        pace = with_rate(pace, target)
    if is_paused != pace.is_paused:
        pace = paused(pace, is_paused)
    if room.admit:
        pace = admit(pace, room.admit)
    return replace(
        pace,
        serving=room.serving,
        pass_seconds=float(sale.room.pass_seconds),
        units_each_max=float(sale.per_buyer_limit or inf),
    )


def observation(room: RoomState, looked: Looked, slowness_ms: float, lag_ms: int) -> Observation:
    taken_since = max(room.units_taken - looked.units_taken, 0)
    return Observation(
        # The number of people still to be called, as if nobody had left.
        joined=room.serving + room.waiting,
        called=max(room.called, 0),
        passes=max(room.passes, 0),
        available=looked.available - taken_since,
        stale=min(max(room.passes_stale - room.stale_used - room.passes_lapsed, 0), max(room.passes, 0)),
        gate_latency_ms=slowness_ms,
        settlement_lag_ms=float(lag_ms),
        # Units taken and no longer held were paid for or failed: settlement is done with them either way.
        counts=room.counts(settled=max(looked.units_taken - looked.held, looked.sold)),
    )
