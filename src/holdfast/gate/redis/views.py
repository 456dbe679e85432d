"""Reads from Redis: pools as their next buyer would find them, and single reservations."""

import asyncio
from collections.abc import Iterable
from functools import partial

import structlog
from msgspec import Struct

from holdfast.domain.stock.pool import Pool
from holdfast.domain.stock.reservation import Reservation, Status, sku_of
from holdfast.domain.stock.shards import shard_name, shard_names, shard_of, whole_pool
from holdfast.errors import EngineError, Unavailable
from holdfast.gate.audit import GatePool
from holdfast.gate.redis.client import RedisClient
from holdfast.gate.redis.encoding import Keys, decode, pool_from, reservation_from
from holdfast.gate.redis.splits import Splits
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.batch import Position
from holdfast.ledger.stock.journal import position
from holdfast.ledger.stock.queries import PoolView, as_of
from holdfast.ledger.stock.shared_reads import SharedReads, Shown, Views, find_in, look_into
from holdfast.ledger.stock.splits import totals

log = structlog.get_logger()


VIEW = "holdfast_view_v2"


def view_call(keys: Keys, now: int) -> list[str | bytes | int]:
    """The call as one command, to send together with others."""
    return ["FCALL", VIEW, len(keys.all), *keys.all, now]


def gate_pool(sku_id: str, reply: bytes) -> GatePool | None:
    """The pool in a reply; None if there is no such pool."""
    match decode(reply):
        case [now, epoch, seq, state, values, units, count, deadline]:
            pool = pool_from(sku_id, values)
            return GatePool(now, Position(epoch, seq), state, pool, units, count, deadline or None)
    return None


class WholePool(Struct, frozen=True):
    """A split pool, summed over its shards. Overdue holds count as free."""

    now: int
    pool: Pool
    shards: dict[str, Pool]
    next_return_at: int | None
    is_complete: bool
    """Whether all shards could be read; the units of the others count as held."""

    @property
    def in_transfer(self) -> int:
        """Units between two shards; approximate, because the shards are read one after the other."""
        return max(self.pool.total - sum(shard.total for shard in self.shards.values()), 0) if self.is_complete else 0

    def view(self) -> PoolView:
        return PoolView(self.pool, self.next_return_at if self.pool.available == 0 else None)


class RedisViews:
    def __init__(self, client: RedisClient, database: Database, splits: Splits) -> None:
        self._client = client
        self._database = database
        self._splits = splits
        self._finders: dict[str, SharedReads[Reservation]] = {}
        self._ended = SharedReads(find_in(database))
        self._in_ledger = look_into(database)

    async def pool(self, sku_id: str) -> GatePool | None:
        now = self._database.known_now_ms() or 0
        return gate_pool(sku_id, await self._client.call_function(VIEW, Keys(sku_id).all, [now]))

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
            if found is None and await self._database.read(lambda c: position(c, sku_id)) is None:
                # It does not exist, or is not in Redis.
                return (await self._in_ledger([sku_id])).get(sku_id)
        except Unavailable as exc:
            return exc
        return Unavailable("the pool is being rebuilt")

    async def whole(self, sku_id: str) -> WholePool:
        names = shard_names(sku_id, await self._splits.of(sku_id))
        looks = await asyncio.gather(*[self._pool_if_open(name) for name in names])
        seen = [look for look in looks if look is not None]
        # Read last: with an older total, units added meanwhile would look sold.
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
            log.warning("shard_unavailable", sku_id=name, error=str(exc))
            return None
        return found if found is not None and found.is_open else None

    async def find(self, reservation_id: str) -> Reservation | None:
        sku_id = sku_of(reservation_id)
        if sku_id is None:
            return None
        shards = await self._splits.of(sku_id)
        name = shard_name(sku_id, shard_of(reservation_id, shards), shards) if shards > 1 else sku_id
        # One per pool: a server that does not answer must not delay reads from other servers.
        finder = self._finders.get(name)
        if finder is None:
            finder = SharedReads(partial(self._find_in, sku_id, Keys(name).holds))
            if shards:
                self._finders[name] = finder
        found = await finder.look(reservation_id)
        # Redis drops ended reservations. Those found there do not need the ledger, which may be down.
        if found is not None and found.status is not Status.EXPIRED:
            return found
        # A Redis that came back with older data still has the hold of a reservation that was paid since. Its deadline
        # has passed, but "expired" would be final and wrong, so the ledger decides.
        known = await self._ended.look(reservation_id) or found
        if known is None and shards:
            await self._ensure_nothing_is_missing(name)
        return known

    async def _ensure_nothing_is_missing(self, name: str) -> None:
        """A reservation in neither Redis nor the ledger does not exist, unless Redis has lost part of the pool."""
        pool = await self.pool(name)
        if pool is not None and not pool.is_open:
            raise Unavailable("the pool is being rebuilt")

    async def _find_in(self, sku_id: str, holds: str, reservation_ids: Iterable[str]) -> Shown[Reservation]:
        """The reservations that are held."""
        asked = list(reservation_ids)
        stored, (seconds, micros) = await self._client.call(holds, ["HMGET", holds, *asked], ["TIME"])
        now = self._database.known_now_ms() or int(seconds) * 1000 + int(micros) // 1000
        return {
            reservation_id: as_of(reservation_from(sku_id, reservation_id, decode(hold)), now)
            for reservation_id, hold in zip(asked, stored, strict=True)
            if hold is not None
        }
