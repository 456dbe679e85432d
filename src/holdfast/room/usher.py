"""Leads the line: opens the room, draws the lottery, calls people in at the pace.

A few times a second (while nobody is in a room, less often), for each sale that is on: look at the stock as the gate
has it; then, in one transaction under the room's lock, count what has become of those called before, let
`domain/pace.py` say how far to go, and store both. The cursor only ever goes forward. Several ushers may run; one holds
the lease of a room, the others leave it alone, and one that slept past its lease finds another's name on the row before
it writes anything.

The stock is looked at before the counts are read, so units taken in between would be seen as free while their buyers
are no longer seen inside: what was noted as taken meanwhile is taken off. Too few are called rather than too many.

The lottery. Its list is closed in one short transaction at opening; the digest of the list is made after that, in
portions, because it may take seconds. Until it is stored nobody is called, and the seed stays secret.

What happens when it fails. If the store or the gate does not answer, nobody is called; everyone keeps their place.
"""

import asyncio
import secrets
from collections.abc import Sequence
from time import monotonic

import structlog
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from holdfast.domain.lottery import ListDigest
from holdfast.domain.pace import Observation, Pace, advance, begin, let_in, paused, with_rate
from holdfast.domain.pool import Pool
from holdfast.domain.room import RoomState, Ushering, grace_ms
from holdfast.domain.sale import Phase, RoomMode, Sale, SaleState
from holdfast.errors import EngineError, Unavailable
from holdfast.ledger.database import Database
from holdfast.ledger.lookout import LookAt
from holdfast.ledger.reckoning import reckon, settlement_lag_ms
from holdfast.ledger.rooms import SaleAndRoom, find_room, list_entries, live_rooms, lock_room, slowness_of, update_room
from holdfast.room.bell import EMPTY_S, QUIET_S, Bell

log = structlog.get_logger()

STEP_S = 0.2
# Long beside a step, short beside the patience of a crowd whose usher has died.
LEASE_MS = 3_000
# A look at the stock is good for so long; one who slept in between looks again.
LOOK_GOOD_S = 1.0
SLOWNESS_GOOD_MS = 2_000
ENTRIES_AT_ONCE = 2_000
# Where nobody waits the stock is looked at this often, for the odds of who comes next.
IDLE_MS = 5_000


class Looked(Struct, frozen=True):
    pool: Pool
    units_taken: int
    at: float


class Usher:
    def __init__(self, database: Database, look_at: LookAt, bell: Bell | None = None) -> None:
        self._database = database
        self._look_at = look_at
        self._name = secrets.token_hex(8)
        self._ear = (bell or Bell()).ear()

    async def run(self) -> None:
        while True:
            rest_s = STEP_S
            try:
                rest_s = await self.pass_once()
            except EngineError as exc:
                log.warning("usher_pass_failed", error=str(exc))
            except Exception:
                log.exception("usher_pass_failed")
            await (asyncio.sleep(STEP_S) if rest_s <= STEP_S else self._ear.rest(rest_s))

    async def pass_once(self) -> float:
        """How long to rest after it, if nobody joins meanwhile."""
        now, found = await self._database.read(lambda c: (self._database.now_ms(c), live_rooms(c)))
        for one in found:
            if self._has_work(one, now):
                await self._attend_or_tell(one)
        return min((_rest_s(one, now) for one in found), default=EMPTY_S)

    def _has_work(self, one: SaleAndRoom, now: int) -> bool:
        sale, room = one.sale, one.room
        if sale.phase(now, None) in (Phase.UPCOMING, Phase.ENDED):
            return False
        if room.usher != self._name and room.leased_until > now:
            return False
        is_drawn = room.opened_at is not None and (room.entrants is None or room.digest is not None)
        return room.is_busy or not is_drawn or now - room.reckoned_at > IDLE_MS

    async def _attend_or_tell(self, one: SaleAndRoom) -> None:
        """A room that fails must not keep the others waiting for more than its turn."""
        try:
            await self.attend(one.sale)
        except EngineError as exc:
            log.warning("usher_room_failed", sale_id=one.sale.sale_id, error=str(exc))
        except Exception:
            log.exception("usher_room_failed", sale_id=one.sale.sale_id)

    async def attend(self, sale: Sale) -> None:
        looked = await self._look(sale)
        room = await self._database.write(lambda c: self._step(c, sale, looked))
        if room is not None and room.entrants is not None and room.digest is None:
            await self._draw(room)

    async def _look(self, sale: Sale) -> Looked:
        room = await self._database.read(lambda c: find_room(c, sale.sale_id))
        at = monotonic()
        view = (await self._look_at([sale.sku_id])).get(sale.sku_id)
        if view is None or isinstance(view, Unavailable):
            raise view or Unavailable(f"the pool {sale.sku_id} is not there")
        return Looked(view.pool, 0 if room is None else room.units_taken, at)

    def _step(self, connection: Connection, sale: Sale, looked: Looked) -> RoomState | None:
        """The room as it is then, or None if it is not ours."""
        room, now = lock_room(connection, sale.sale_id), self._database.now_ms(connection)
        if room is None or (room.usher != self._name and room.leased_until > now):
            return None
        if monotonic() - looked.at > LOOK_GOOD_S:
            return None
        changes: dict[str, object] = {
            "usher": self._name,
            "leased_until": now + LEASE_MS,
            "fence": room.fence + (room.usher != self._name),
        }
        if room.opened_at is None:
            is_lottery = sale.room.mode is RoomMode.LOTTERY
            changes |= {"opened_at": now, "entrants": room.joined if is_lottery else None}
            log.info("room_opened", sale_id=sale.sale_id, joined=room.joined)
        elif room.entrants is None or room.digest is not None:
            changes |= self._moved(connection, sale, room, looked, now)
        update_room(connection, sale.sale_id, **changes)
        return replace(room, **{name: value for name, value in changes.items() if name != "ushering"})

    def _moved(
        self, connection: Connection, sale: Sale, room: RoomState, looked: Looked, now: int
    ) -> dict[str, object]:
        before = room.ushering or _begun(sale, room, now)
        called_to, calls = _still_called(before.calls, room.called_to, now - grace_ms(sale.room.pass_seconds))
        reckoned = reckon(connection, room, called_to, now)
        counted: dict[str, int] = {
            "passes_stale": room.passes_stale + reckoned.passes_stale,
            "passes_lapsed": room.passes_lapsed + reckoned.passes_lapsed,
            "calls_lapsed": room.calls_lapsed + called_to - room.called_to - reckoned.answered,
            "answered": room.answered - reckoned.answered,
            "called_to": called_to,
            "reckoned_at": now,
        }
        room = replace(room, **counted)
        slowness = slowness_of(connection, sale.sku_id, now - SLOWNESS_GOOD_MS)
        seen = observation(room, looked, slowness, settlement_lag_ms(connection, sale.sku_id, now))
        pace = advance(wanted_pace(before.pace, sale, room), seen, now)
        if pace.serving > room.serving:
            calls = [*calls, (now, pace.serving)]
        ushering = Ushering(pace, seen, calls, looked.pool.held, looked.pool.sold, looked.units_taken)
        return {**counted, "serving": max(pace.serving, room.serving), "let_in": 0, "ushering": ushering.to_json()}

    async def _draw(self, room: RoomState) -> None:
        """Nothing on the list changes any more, so it can be read bit by bit, and by whoever takes over."""
        assert room.entrants is not None
        digest = ListDigest()
        for first in range(0, room.entrants, ENTRIES_AT_ONCE):
            digest.add(await self._entries(room, first, min(first + ENTRIES_AT_ONCE, room.entrants)))

        def store(connection: Connection) -> None:
            current = lock_room(connection, room.sale_id)
            if current is not None and current.digest is None and current.fence == room.fence:
                update_room(connection, room.sale_id, digest=digest.hexdigest())

        await self._database.write(store)
        log.info("lottery_drawn", sale_id=room.sale_id, entrants=room.entrants)

    async def _entries(self, room: RoomState, first: int, last: int) -> list[str]:
        return await self._database.read(lambda c: list_entries(c, room.sale_id, first, last))


def _rest_s(one: SaleAndRoom, now: int) -> float:
    """Until it may need attention: not before it opens, and at every step while somebody is in it."""
    phase = one.sale.phase(now, None)
    if phase is Phase.UPCOMING:
        return min(max((one.sale.starts_at - now) / 1_000, STEP_S), EMPTY_S)
    if phase is Phase.ENDED:
        return EMPTY_S
    return STEP_S if one.room.is_busy or one.room.opened_at is None else QUIET_S


def _begun(sale: Sale, room: RoomState, now: int) -> Ushering:
    target = float(room.rate_per_second or sale.room.rate_per_second)
    began = now if room.opened_at is None else room.opened_at
    pace = begin(target, sale.room.pass_seconds, began, float(sale.per_buyer_limit or 1))
    return Ushering(pace, Observation(room.joined, 0, 0, 0))


def _still_called(calls: Sequence[tuple[int, int]], called_to: int, since: int) -> tuple[int, list[tuple[int, int]]]:
    """How far those come whose time is over, and the calls of the others."""
    over = [serving for at, serving in calls if at <= since]
    return max([called_to, *over]), [(at, serving) for at, serving in calls if at > since]


def wanted_pace(pace: Pace, sale: Sale, room: RoomState) -> Pace:
    """As the sale and its operator want it now."""
    target = float(room.rate_per_second or sale.room.rate_per_second)
    is_paused = room.paused or sale.paused or sale.state is SaleState.LOADING
    if target != pace.target_per_second:
        pace = with_rate(pace, target)
    if is_paused != pace.is_paused:
        pace = paused(pace, is_paused)
    if room.let_in:
        pace = let_in(pace, room.let_in)
    return replace(pace, serving=room.serving, pass_seconds=float(sale.room.pass_seconds))


def observation(room: RoomState, looked: Looked, slowness_ms: float, lag_ms: int) -> Observation:
    taken_since = max(room.units_taken - looked.units_taken, 0)
    return Observation(
        joined=room.joined,
        called=max(room.called, 0),
        passes=max(room.passes, 0),
        available=looked.pool.available - taken_since,
        stale=min(max(room.passes_stale - room.stale_used - room.passes_lapsed, 0), max(room.passes, 0)),
        gate_latency_ms=slowness_ms,
        settlement_lag_ms=float(lag_ms),
        # What was taken and is held no more was paid for, or has failed: settlement is done with it either way.
        counts=room.counts(settled=max(looked.units_taken - looked.pool.held, looked.pool.sold)),
    )
