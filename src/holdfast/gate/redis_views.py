"""Looking at what is in Redis: pools as their next buyer would find them, and single reservations."""

import asyncio
from collections.abc import Iterable
from functools import partial

import structlog
from msgspec import Struct
from msgspec.structs import replace

from holdfast.domain.pool import Pool
from holdfast.domain.reservation import Reservation, sku_of
from holdfast.domain.shards import shard_name, shard_names, shard_of, whole_pool
from holdfast.errors import EngineError, Unavailable
from holdfast.gate.encoding import Keys, decode, pool_from, reservation_from
from holdfast.gate.functions import Functions
from holdfast.gate.splits import Splits
from holdfast.ledger.batch import Position
from holdfast.ledger.database import Database
from holdfast.ledger.journal import pool_exists
from holdfast.ledger.lookout import Lookout, Shown, Views, find_in
from holdfast.ledger.queries import PoolView, as_of
from holdfast.ledger.splits import totals

log = structlog.get_logger()


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


class WholePool(Struct, frozen=True):
    """A pool that is split, as its shards have it together. Overdue holds count as free."""

    now: int
    pool: Pool
    shards: dict[str, Pool]
    next_return_at: int | None
    is_complete: bool
    """Whether all shards could be looked at; what the others have counts as held."""

    @property
    def on_its_way(self) -> int:
        """Units that are between two shards, about: the shards are looked at one after the other."""
        return max(self.pool.total - sum(shard.total for shard in self.shards.values()), 0) if self.is_complete else 0

    def view(self) -> PoolView:
        return PoolView(self.pool, self.next_return_at if self.pool.available == 0 else None)


class RedisViews:
    def __init__(self, functions: Functions, database: Database, splits: Splits) -> None:
        self._functions = functions
        self._database = database
        self._splits = splits
        self._finders: dict[str, Lookout[Reservation]] = {}
        self._ended = Lookout(find_in(database))

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
            shards = await self._splits.of(sku_id)
            if shards == 0:
                return None
            found = await self.pool(sku_id) if shards == 1 else await self.whole(sku_id)
            if isinstance(found, GatePool) and found.is_open:
                return found.view()
            if isinstance(found, WholePool) and found.is_complete:
                return found.view()
            if found is None and not await self._database.read(lambda c: pool_exists(c, sku_id)):
                return None
        except Unavailable as exc:
            return exc
        return Unavailable("the pool is being rebuilt")

    async def whole(self, sku_id: str) -> WholePool:
        names = shard_names(sku_id, await self._splits.of(sku_id))
        looks = await asyncio.gather(*[self._pool_if_open(name) for name in names])
        seen = [look for look in looks if look is not None]
        # Asked last: a total that was raised meanwhile must not be taken for sold with what was there before.
        total = (await self._database.read(lambda c: totals(c, [sku_id])))[sku_id]
        shards = {look.pool.sku_id: look.view().pool for look in seen}
        return WholePool(
            max((look.now for look in seen), default=0),
            whole_pool(sku_id, total, list(shards.values())),
            shards,
            min((look.next_return_at for look in seen if look.next_return_at is not None), default=None),
            len(seen) == len(names),
        )

    async def _pool_if_open(self, name: str) -> GatePool | None:
        try:
            found = await self.pool(name)
        except EngineError as exc:
            log.warning("shard_not_seen", sku_id=name, error=str(exc))
            return None
        return found if found is not None and found.is_open else None

    async def find(self, reservation_id: str) -> Reservation | None:
        sku_id = sku_of(reservation_id)
        if sku_id is None:
            return None
        shards = await self._splits.of(sku_id)
        name = shard_name(sku_id, shard_of(reservation_id, shards), shards) if shards > 1 else sku_id
        # One for each: a server that does not answer holds up nobody who asks about the pools of another.
        finder = self._finders.get(name)
        if finder is None:
            finder = Lookout(partial(self._find_in, sku_id, Keys(name).holds))
            if shards:
                self._finders[name] = finder
        # Redis forgets what has ended. Whoever is found there waits for no ledger, which may be away.
        return await finder.look(reservation_id) or await self._ended.look(reservation_id)

    async def _find_in(self, sku_id: str, holds: str, reservation_ids: Iterable[str]) -> Shown[Reservation]:
        """Those that are held."""
        asked = list(reservation_ids)
        stored, (seconds, micros) = await self._functions.link.call(holds, ["HMGET", holds, *asked], ["TIME"])
        now = int(seconds) * 1000 + int(micros) // 1000
        return {
            reservation_id: as_of(reservation_from(sku_id, reservation_id, decode(hold)), now)
            for reservation_id, hold in zip(asked, stored, strict=True)
            if hold is not None
        }
