"""Rebuilds a pool in Redis from the ledger.

The steps. A pool that is missing, behind what was seen of it, or inconsistent with the ledger is closed, so that its
journal does not grow. The rest of its journal is read into the ledger. Units in transfer to it arrive, and grants that
do not follow the ledger's state are adopted. A new epoch begins in the ledger, which settles claims. The current holds
are loaded into Redis under the new epoch, in portions, and checked; then the pool is opened. Once the ledger is at the
new epoch, nothing of the old one counts. So it does not matter how many processes try this concurrently, where one of
them dies, or what a partitioned server still assumes.

Commands that need data Redis does not keep (a limit set on a pool that never counted its owners), and those for pools
that do not exist yet, are decided in the ledger on the way, in the transaction that begins the epoch.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from time import monotonic
from typing import TypeVar

import structlog
from sqlalchemy import Connection

from holdfast.domain.stock.command import Command as DomainCommand
from holdfast.domain.stock.command import Verdict
from holdfast.domain.stock.reservation import Status
from holdfast.errors import EngineError, Unavailable
from holdfast.gate.redis.client import RedisClient
from holdfast.gate.redis.drainer import Drainer
from holdfast.gate.redis.encoding import (
    Keys,
    counter_values,
    encode,
    key_field,
    pool_values,
)
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.batch import LockedPool, Position, batch_queries
from holdfast.ledger.stock.decide import decide_batch
from holdfast.ledger.stock.drift import record_drift
from holdfast.ledger.stock.gate_state import (
    START,
    Mark,
    Portion,
    holds_after,
    holds_and_owners_after,
    remembered_after,
)
from holdfast.ledger.stock.journal import Journal, NewEpoch, position, retire
from holdfast.ledger.stock.parked_entries import ParkingJournal
from holdfast.ledger.stock.transfers import takes_for
from holdfast.runtime import metrics

log = structlog.get_logger()

T = TypeVar("T")
ACTIVE = Status.ACTIVE.value
Read = Callable[[Connection, str, Mark], tuple[T, Mark]]
# It sums up the holds, which takes about a second for a million reservations.
BEGIN_S = 30.0


class Rebuilder:
    def __init__(self, database: Database, client: RedisClient, drainer: Drainer) -> None:
        self._database = database
        self._client = client
        self._drainer = drainer
        self._queries = batch_queries(database.dialect_name)
        self._journal = Journal(self._queries)
        self._unread = ParkingJournal(self._queries)

    async def rebuild(self, sku_id: str, at: Position, reason: str) -> None:
        """Rebuild a pool, unless another process has started to rebuild it since its position was `at`."""
        started = monotonic()
        _, start = await self._begin(sku_id, at, (), lambda c: record_drift(c, self._database, sku_id))
        if start is None:
            return
        await self._load(sku_id, start)
        seconds = monotonic() - started
        metrics.REBUILDS.labels(reason).inc()
        metrics.REBUILD_SECONDS.observe(seconds)
        log.warning("pool_rebuilt", sku_id=sku_id, reason=reason, epoch=start.epoch, seconds=round(seconds, 3))

    async def reload(self, sku_id: str) -> None:
        """Reload a consistent pool from the ledger, because rows of the ledger were changed by hand."""
        at = await self._database.read(lambda c: position(c, sku_id))
        if at is not None and at.epoch > 0:
            _, start = await self._begin(sku_id, at, (), lambda _: None)
            if start is not None:
                await self._load(sku_id, start)

    async def decide_in_ledger(
        self, sku_id: str, at: Position, commands: Sequence[DomainCommand]
    ) -> list[Verdict] | None:
        """Decide a batch in the ledger and rebuild the pool from it; None if another process has begun to rebuild
        it."""
        decided, start = await self._begin(
            sku_id, at, commands, lambda c: decide_batch(c, self._queries, self._database, sku_id, commands)
        )
        if start is not None:
            try:
                await self._load(sku_id, start)
            except EngineError as exc:
                # It is decided and durable; the reconciler will rebuild the pool.
                log.warning("pool_load_failed", sku_id=sku_id, error=str(exc))
        return None if decided is None else decided.verdicts

    async def retire(self, sku_id: str, at: Position) -> None:
        """Drop a pool without holds from Redis. The next command loads it again, under a new epoch. Redis comes first:
        if a process dies in between, the pool is merely missing, and is rebuilt."""
        self._database.guard.ensure_open()
        await self._close(sku_id, at)
        drained = await self._database.read(lambda c: position(c, sku_id))
        if drained is None or drained.epoch != at.epoch:
            return
        if await self._client.call_function("holdfast_drop_v2", Keys(sku_id).all, [drained.epoch, drained.seq]) != 1:
            return

        def write(connection: Connection) -> None:
            locked = self._queries.lock(connection, sku_id, ())
            if locked.position == drained:
                retire(connection, locked)

        await self._database.write(write)
        log.info("pool_retired", sku_id=sku_id, epoch=drained.epoch)

    async def drain_until(self, sku_id: str, seen: Position) -> None:
        """Read the journal into the ledger at least up to a known position, if it exists."""
        await self._drainer.drain_until(sku_id, seen)

    async def _begin(
        self, sku_id: str, at: Position, commands: Sequence[DomainCommand], work: Callable[[Connection], T]
    ) -> tuple[T | None, NewEpoch | None]:
        # A rebuild destroys what Redis has; a ledger that went back must not begin one.
        self._database.guard.ensure_open()
        if at.epoch:
            await self._close(sku_id, at)
        heard = await self._heard(sku_id, at)
        unread = await self._drainer.unread(sku_id, at) if at.epoch else []

        def begin(connection: Connection) -> tuple[T | None, NewEpoch | None]:
            before = self._queries.lock(connection, sku_id, commands)
            if before.position.epoch != at.epoch:
                return None, None
            self._check_is_not_behind(before, heard)
            if before.pool is not None:
                self._take_arrived(connection, sku_id)
            self._unread.adopt(connection, sku_id, unread)
            done = work(connection)
            locked = self._queries.lock(connection, sku_id, ())
            if locked.pool is None:
                return done, None
            return done, self._journal.begin_epoch(connection, locked, self._database.now_ms(connection))

        return await self._database.write(begin, timeout_s=BEGIN_S)

    def _take_arrived(self, connection: Connection, sku_id: str) -> None:
        """Redis may have taken and sold units in transfer to the pool. If the journal does not have that yet, the
        claims of these sales would be settled with units that others hold."""
        takes = takes_for(connection, sku_id)
        if takes:
            decide_batch(connection, self._queries, self._database, sku_id, takes)

    async def _heard(self, sku_id: str, at: Position) -> Position:
        """What Redis knows of the ledger: the epoch, and the ledger's position in the journal."""
        key = Keys(sku_id).pool
        try:
            [(epoch, trimmed)] = await self._client.call(key, ["HMGET", key, "epoch", "trimmed"])
        except EngineError:
            if at.epoch:
                raise
            # A pool that is not in Redis is decided without it.
            return Position()
        return Position(int(epoch or 0), int(trimmed or 0))

    def _check_is_not_behind(self, locked: LockedPool, heard: Position) -> None:
        """Redis only learns of committed positions, so a ledger with a lower one went back in time. A newly started
        process would not notice otherwise."""
        at, sku_id = locked.position, locked.sku_id
        if not locked.last_epoch and heard.epoch:
            # This ledger may be new, or lack the pool; either way, what Redis has is not replaced.
            log.error("pool_of_another_ledger", sku_id=sku_id, epoch=heard.epoch, keys=f"{Keys(sku_id).prefix}*")
            raise Unavailable(f"Redis has the pool {sku_id} from another ledger, at epoch {heard.epoch}")
        is_behind = heard.epoch > locked.last_epoch or (0 < at.epoch == heard.epoch and heard.seq > at.seq)
        if is_behind:
            guard = self._database.guard
            guard.finding = f"Redis was told of more of {sku_id}: {heard}, and it has {at}"
            log.error("ledger_went_back", finding=guard.finding)
            guard.ensure_open()

    async def _close(self, sku_id: str, at: Position) -> None:
        await self._client.call_function("holdfast_close_v2", [Keys(sku_id).pool], [at.epoch])
        now_at = await self._database.read(lambda c: position(c, sku_id))
        if now_at is not None and now_at.epoch == at.epoch:
            await self._drainer.drain_all(sku_id, now_at)

    async def _load(self, sku_id: str, start: NewEpoch) -> None:
        names, epoch = Keys(sku_id).all, start.epoch
        pool, counters = encode(pool_values(start.pool)), encode(counter_values(start.counters))
        await self._succeed("begin_v2", names, epoch, start.decided_at, pool, counters)
        # Concurrently, because each call waits for the disk.
        read = holds_and_owners_after if start.pool.rules.count_owners else holds_after
        await asyncio.gather(self._load_holds(sku_id, epoch, read), self._load_keys(sku_id, epoch))
        await self._succeed("open_v2", names, epoch)

    async def _load_holds(self, sku_id: str, epoch: int, read: Read[Portion]) -> None:
        async for portion in self._portions(sku_id, read):
            await self._succeed("load_v2", Keys(sku_id).all, epoch, *_as_stored(portion))

    async def _load_keys(self, sku_id: str, epoch: int) -> None:
        async for firsts in self._portions(sku_id, remembered_after):
            stored: list[bytes | str] = []
            for owner_id, key, *answer in map(tuple, firsts):
                stored += key_field(owner_id, key), encode(answer)
            await self._succeed("load_v2", Keys(sku_id).all, epoch, 0, 0, 0, 0, *stored)

    async def _portions(self, sku_id: str, read: Read[T]) -> AsyncIterator[T]:
        """All holds, in portions that do not delay other pools. A portion may be empty while there is more to read:
        loading it shows other processes that the rebuild makes progress."""
        mark = START
        while True:
            found, mark = await self._database.read(partial(_read_after, read, sku_id, mark))
            yield found
            if mark == START:
                return

    async def _succeed(self, step: str, names: Sequence[str], *arguments: bytes | int | str) -> None:
        reply = await self._client.call_function(f"holdfast_{step}", names, arguments)
        if reply != 1:
            raise Unavailable(f"cannot {step} {names[0]} ({reply}): another process rebuilds it, or it does not add up")


def _read_after(read: Read[T], sku_id: str, mark: Mark, connection: Connection) -> tuple[T, Mark]:
    return read(connection, sku_id, mark)


def _as_stored(portion: Portion) -> list[int | str | bytes]:
    """Encoded here rather than in Redis, where all other commands would have to wait."""
    units = 0
    holds: list[int | str | bytes] = []
    deadlines: list[int | str | bytes] = []
    for reservation_id, *hold in map(tuple, portion.holds):
        _, quantity, status, _, expires_at, _ = hold
        units += quantity
        holds += reservation_id, encode(hold)
        if status == ACTIVE:
            deadlines += expires_at, reservation_id
    owners = [part for name, has in portion.owners.items() for part in (name, encode(has))]
    return [units, len(holds) // 2, len(deadlines) // 2, len(owners) // 2, *holds, *deadlines, *owners]
