"""Looking at what is in Redis: pools as their next buyer would find them, and single reservations."""

import asyncio
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from holdfast.domain.pool import Pool
from holdfast.domain.reservation import Reservation, sku_of
from holdfast.errors import Unavailable
from holdfast.gate.encoding import Keys, decode, pool_from, reservation_from
from holdfast.gate.functions import Functions
from holdfast.ledger.batch import Position
from holdfast.ledger.database import Database
from holdfast.ledger.journal import pool_exists
from holdfast.ledger.lookout import Views
from holdfast.ledger.queries import PoolView, as_of, find_reservation


class GatePool(Struct, frozen=True):
    """A pool as Redis has it."""

    now: int
    at: Position
    state: str
    pool: Pool
    due_units: int
    due_reservations: int
    next_return_at: int | None

    @property
    def is_open(self) -> bool:
        return self.state == "open"

    def view(self) -> PoolView:
        """Overdue holds count as free, because the next reserve would take them."""
        honest = replace(
            self.pool,
            held=self.pool.held - self.due_units,
            active_reservations=self.pool.active_reservations - self.due_reservations,
        )
        return PoolView(honest, self.next_return_at if honest.available == 0 else None)


class RedisViews:
    def __init__(self, functions: Functions, database: Database) -> None:
        self._functions = functions
        self._database = database

    async def pool(self, sku_id: str) -> GatePool | None:
        keys = Keys(sku_id)
        reply = await self._functions.call("holdfast_view_v1", [keys.pool, keys.holds, keys.deadlines], [])
        match decode(reply):
            case [now, epoch, seq, state, values, units, count, deadline]:
                pool = pool_from(sku_id, values)
                return GatePool(now, Position(epoch, seq), state, pool, units, count, deadline or None)
        return None

    async def look_at(self, sku_ids: Iterable[str]) -> Views:
        asked = list(sku_ids)
        seen = await asyncio.gather(*[self._look(sku_id) for sku_id in asked])
        return {sku_id: view for sku_id, view in zip(asked, seen, strict=True) if view is not None}

    async def _look(self, sku_id: str) -> PoolView | Unavailable | None:
        try:
            found = await self.pool(sku_id)
            if found is not None and found.is_open:
                return found.view()
            if found is None and not await self._database.read(lambda c: pool_exists(c, sku_id)):
                return None
        except Unavailable as exc:
            return exc
        return Unavailable("the pool is being rebuilt")

    async def find(self, reservation_id: str) -> Reservation | None:
        """From Redis while it is held, from the ledger when it has ended and Redis has forgotten it."""
        sku_id = sku_of(reservation_id)
        if sku_id is None:
            return None
        holds = Keys(sku_id).holds
        stored, (seconds, micros) = await self._functions.link.call(holds, ["HGET", holds, reservation_id], ["TIME"])
        if stored is None:
            return await self._database.read(lambda c: find_reservation(c, reservation_id, self._database.now_ms(c)))
        now = int(seconds) * 1000 + int(micros) // 1000
        return as_of(reservation_from(sku_id, reservation_id, decode(stored)), now)
