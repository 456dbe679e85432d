"""A pool in Redis is rebuilt from the ledger.

Whoever finds a pool missing, behind what was seen of it, or at odds with the ledger, rebuilds it: close it, so that its
journal does not grow; take into the ledger what is left of the journal; begin a new epoch in the ledger, which settles
claims; load what is held then into Redis under the new epoch, in portions; check it; open. From the moment the ledger
is at the new epoch nothing of the old one counts, so it does not matter how many try this at once, where one of them
dies, or what a server that was cut off still believes.

Rules that need what Redis does not keep (a limit set on a pool that never counted its owners), and pools that do not
exist yet, are decided in the ledger on the way, in the transaction that begins the epoch.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from time import monotonic
from typing import TypeVar

import structlog
from msgspec.structs import astuple
from sqlalchemy import Connection

from holdfast import metrics
from holdfast.domain.command import Command as DomainCommand
from holdfast.domain.command import Verdict
from holdfast.domain.state import Remembered
from holdfast.errors import EngineError, Unavailable
from holdfast.gate.encoding import Keys, counter_values, encode, first_answer_values, pool_values, reservation_values
from holdfast.gate.functions import Functions
from holdfast.gate.sql import SqlGate
from holdfast.ledger.batch import BatchQueries, Position
from holdfast.ledger.database import Database
from holdfast.ledger.drift import record_drift
from holdfast.ledger.gate_state import START, Mark, holds_after, owners_after, remembered_after
from holdfast.ledger.journal import Journal, NewEpoch, position
from holdfast.settlement.drain import Drainer
from holdfast.settlement.expire import KEYS_KEPT_MS

log = structlog.get_logger()

T = TypeVar("T")
# What Redis takes in some milliseconds, in which it does nothing else; each is synced.
PORTION = 1_000
# It adds up what is held, which takes a second where a million reservations are; longer than that only on a bad day.
BEGIN_S = 30.0
# Longer than the ledger keeps them: a key that it still has must not be taken for a new one here.
REDIS_KEYS_KEPT_MS = KEYS_KEPT_MS + 3_600_000


class Rebuilder:
    def __init__(self, database: Database, functions: Functions, drainer: Drainer) -> None:
        self._database = database
        self._functions = functions
        self._drainer = drainer
        self._queries = BatchQueries(database.dialect_name)
        self._journal = Journal(self._queries)
        self._sql = SqlGate(database)

    async def rebuild(self, sku_id: str, at: Position, why: str) -> None:
        """Bring a pool back, unless somebody else has begun to since its position was `at`."""
        started = monotonic()
        _, start = await self._begin(sku_id, at, (), lambda c: record_drift(c, self._database, sku_id))
        if start is None:
            return
        await self._load(sku_id, start)
        seconds = monotonic() - started
        metrics.REBUILDS.labels(why).inc()
        metrics.REBUILD_SECONDS.observe(seconds)
        log.warning("pool_rebuilt", sku_id=sku_id, why=why, epoch=start.epoch, seconds=round(seconds, 3))

    async def decide_in_ledger(
        self, sku_id: str, at: Position, commands: Sequence[DomainCommand]
    ) -> list[Verdict] | None:
        """Decide a batch in the ledger and rebuild the pool from it; None if somebody else has begun to."""
        decided, start = await self._begin(sku_id, at, commands, lambda c: self._sql.decide(c, sku_id, commands))
        if start is not None:
            try:
                await self._load(sku_id, start)
            except EngineError as exc:
                # It is decided and durable; the reconciler will bring the pool back.
                log.warning("pool_not_loaded", sku_id=sku_id, error=str(exc))
        return decided

    async def drain_until(self, sku_id: str, seen: Position) -> None:
        """Take the journal into the ledger at least up to what was seen of it, if it is there."""
        await self._drainer.drain_until(sku_id, seen)

    async def _begin(
        self, sku_id: str, at: Position, commands: Sequence[DomainCommand], work: Callable[[Connection], T]
    ) -> tuple[T | None, NewEpoch | None]:
        if at.epoch:
            await self._close(sku_id, at)

        def begin(connection: Connection) -> tuple[T | None, NewEpoch | None]:
            if self._queries.lock(connection, sku_id, commands).position.epoch != at.epoch:
                return None, None
            done = work(connection)
            locked = self._queries.lock(connection, sku_id, ())
            if locked.pool is None:
                return done, None
            return done, self._journal.begin_epoch(connection, locked, self._database.now_ms(connection))

        return await self._database.write(begin, timeout_s=BEGIN_S)

    async def _close(self, sku_id: str, at: Position) -> None:
        await self._functions.call("holdfast_close_v1", [Keys(sku_id).pool], [at.epoch])
        now_at = await self._database.read(lambda c: position(c, sku_id))
        if now_at is not None and now_at.epoch == at.epoch:
            await self._drainer.drain_all(sku_id, now_at)

    async def _load(self, sku_id: str, start: NewEpoch) -> None:
        keys = Keys(sku_id)
        names = [keys.pool, keys.holds, keys.deadlines, keys.owners]
        epoch, none = start.epoch, encode([])
        pool, counters = encode(pool_values(start.pool)), encode(counter_values(start.counters))
        await self._succeed("begin_v1", [*names, keys.journal], epoch, start.decided_at, pool, counters)
        async for holds in self._portions(sku_id, holds_after):
            await self._succeed("load_v2", names, epoch, encode([reservation_values(r) for r in holds]), none, none)
        if start.pool.rules.count_owners:
            async for owners in self._portions(sku_id, owners_after):
                await self._succeed("load_v2", names, epoch, none, encode([list(astuple(o)) for o in owners]), none)
        async for firsts in self._portions(sku_id, remembered_after):
            theirs = [keys.idempotency(first.owner_id, first.key) for first in firsts]
            kept = encode([_first_answer(first, start.decided_at) for first in firsts])
            await self._succeed("load_v2", [*names, *theirs], epoch, none, none, kept)
        await self._succeed("open_v1", names[:3], epoch)

    async def _portions(
        self, sku_id: str, read: Callable[[Connection, str, Mark], tuple[list[T], Mark]]
    ) -> AsyncIterator[list[T]]:
        """Everything there is, as much at a time as Redis takes without keeping other pools waiting. Where nothing was
        found and there is more to look at, nothing: by that, too, others see that it goes on."""
        mark = START
        while True:
            found, mark = await self._database.read(partial(_read_after, read, sku_id, mark))
            for first in range(0, len(found), PORTION):
                yield found[first : first + PORTION]
            if mark == START:
                return
            if not found:
                yield []

    async def _succeed(self, step: str, names: Sequence[str], *arguments: bytes | int) -> None:
        told = await self._functions.call(f"holdfast_{step}", names, arguments)
        if told != 1:
            raise Unavailable(f"cannot {step} {names[0]} ({told}): somebody else rebuilds it, or it does not add up")


def _read_after(
    read: Callable[[Connection, str, Mark], tuple[list[T], Mark]], sku_id: str, mark: Mark, connection: Connection
) -> tuple[list[T], Mark]:
    return read(connection, sku_id, mark)


def _first_answer(first: Remembered, now: int) -> list[object]:
    left = max(first.reservation.created_at + REDIS_KEYS_KEPT_MS - now, 1)
    return [left, *first_answer_values(first)]
