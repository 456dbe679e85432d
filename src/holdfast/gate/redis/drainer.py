"""Copies the journal of a gate in Redis into the ledger.

The model. Each pool has one journal, whose entries are numbered without gaps within an epoch. A drain reads the entries
after the ledger's position, stores them together with the new position in one transaction under the pool's lock, and
only then trims them in Redis. So an entry is stored exactly once and in order, wherever a drainer dies. Several may
run, because the lock admits one at a time and the next one finds that the position has moved.

Pools do not wait for one another. Each is drained in its own transactions, because a transaction with two pools would
hold the lock of one while it waits for that of the other. They take turns at the stores (`turns.py`): one turn is one
transaction, and a pool with more to do queues again behind the others. Callers that request a pool during a drain share
its next transaction.

What happens when it fails. Only committed entries are trimmed, so the next drain continues from there. The parts of an
entry that the ledger refuses are parked (`parked_entries.py`). Entries that do not follow the ledger's position are
left to the reconciler.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic, time_ns
from typing import Any

import structlog

from holdfast.domain.stock.reservation import Status
from holdfast.domain.stock.shards import whole_of
from holdfast.gate.engine import JournalObserver
from holdfast.gate.redis.client import RedisClient
from holdfast.gate.redis.encoding import Keys, decode_entry
from holdfast.gate.redis.link.port import Command
from holdfast.gate.redis.turns import Turns
from holdfast.ledger.engine.database import Database, SharedDatabase
from holdfast.ledger.stock.batch import Position, batch_queries
from holdfast.ledger.stock.journal import Entry, position, positions
from holdfast.ledger.stock.parked_entries import ParkingJournal
from holdfast.runtime import metrics
from holdfast.runtime.agent import Agent
from holdfast.runtime.batching import KeyedBatcher
from holdfast.runtime.log import log_failure

log = structlog.get_logger()

# A pool with entries is read again immediately; one without, less and less often. A confirm waits for the journal, so
# the drainer is back soon after an outage.
LONGEST_BACKOFF_S = 0.2
SHORTEST_REST_S = 0.02
LONGEST_REST_S = 0.32
# How many small entries fit in a transaction of some tens of milliseconds; large ones end it earlier.
ENTRIES_MAX = 100
CHANGES_MAX = 4_000

CATCH_UP_S = 0.5
# Most pools have nothing new, and reading them one after another would take time from the others.
READ_AT_ONCE = 16
STORED_AT_ONCE = 3
# Above the number of requests that a process accepts.
ASKERS_MAX = 65_536

_ENDED = {Status.CONFIRMED, Status.FAILED, Status.CANCELLED, Status.EXPIRED}


class _Rest:
    """How long an idle pool is left alone."""

    def __init__(self) -> None:
        self.seconds = SHORTEST_REST_S
        self.until = 0.0

    def after(self, *, was_busy: bool) -> None:
        self.seconds = SHORTEST_REST_S if was_busy else min(self.seconds * 2, LONGEST_REST_S)
        self.until = monotonic() + (0.0 if was_busy else self.seconds)


class Drainer:
    def __init__(self, database: Database, client: RedisClient, *, at_once: int = STORED_AT_ONCE) -> None:
        """`at_once`: how many pools may be in a transaction concurrently, not counting one that failed before."""
        self._database = database
        self._client = client
        self._journal = ParkingJournal(batch_queries(database.dialect_name))
        self._ask = database.read_statement if isinstance(database, SharedDatabase) else database.read
        self._reading, self._storing = Turns(READ_AT_ONCE), Turns(at_once)
        self._drains: KeyedBatcher[Position, int] = KeyedBatcher(
            self._drain_shared, batch_max=ASKERS_MAX, queue_max=ASKERS_MAX
        )
        self._rests: dict[str, _Rest] = {}
        self._draining: dict[str, asyncio.Task[int]] = {}
        # Pools whose journal had more than one transaction's worth when it was last read.
        self._behind: set[str] = set()
        # Set if tracing is on.
        self.on_stored: JournalObserver | None = None

    def agent(self) -> Agent[list[asyncio.Task[int]]]:
        return Agent("drainer", self._start_due, SHORTEST_REST_S, longest_backoff_s=LONGEST_BACKOFF_S, close=self._stop)

    async def pass_once(self) -> int:
        """Drain every due pool. Returns how many entries were stored."""
        return sum(await asyncio.gather(*await self._start_due()))

    async def _start_due(self) -> list[asyncio.Task[int]]:
        """Start to drain due pools, except those still being drained."""
        at = await self._ask(positions)
        now = monotonic()
        due = [sku_id for sku_id in at if sku_id not in self._draining and self._rest(sku_id).until <= now]
        for sku_id in due:
            task = self._draining[sku_id] = asyncio.create_task(self._drain_while_behind(sku_id, at[sku_id]))
            task.add_done_callback(partial(self._forget, sku_id))
        return [self._draining[sku_id] for sku_id in due]

    def _forget(self, sku_id: str, _done: asyncio.Task[int]) -> None:
        del self._draining[sku_id]

    async def _stop(self) -> None:
        for task in self._draining.values():
            task.cancel()
        await self._drains.drain()

    async def _drain_while_behind(self, sku_id: str, at: Position) -> int:
        stored = await self._drain_or_log(sku_id, at)
        self._rest(sku_id).after(was_busy=stored > 0)
        return stored

    async def _drain_or_log(self, sku_id: str, at: Position) -> int:
        """A failing pool must not affect the others."""
        try:
            return await self._drain_present(sku_id, at)
        except Exception as exc:
            log_failure("drainer_pool_failed", exc, sku_id=sku_id)
            return 0

    async def _drain_present(self, sku_id: str, at: Position) -> int:
        """Drain at least the current journal. Returns how many entries were stored. During a sale the journal keeps
        growing, so waiting for its end could take as long as the sale."""
        stored = 0
        while count := await self._drains.submit(sku_id, at):
            stored, at = stored + count, _after(at, count)
            if sku_id not in self._behind:
                break
        return stored

    def _rest(self, sku_id: str) -> _Rest:
        return self._rests.setdefault(sku_id, _Rest())

    async def drain_all(self, sku_id: str, at: Position) -> None:
        """Drain a pool to the end of its journal."""
        while count := await self._drains.submit(sku_id, at):
            at = _after(at, count)

    async def drain_until(self, sku_id: str, seen: Position) -> None:
        """Drain a pool, if it exists, at least up to a known position; the journal may grow meanwhile."""
        while (at := await self._database.read(lambda c: position(c, sku_id))) is not None and at.epoch == seen.epoch:
            stored = await self._drains.submit(sku_id, at) if at.seq < seen.seq else 0
            if not stored or at.seq + stored >= seen.seq:
                return

    async def catch_up(self, sku_id: str | None) -> None:
        """Drain the current entries of one pool or all, for as long as a caller can reasonably wait. Stops after that,
        and on failure, because a list that is slightly behind is better than none."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_S):
                found = await self._ask(positions)
                await self._drain_together({n: at for n, at in found.items() if sku_id in (None, whole_of(n))})

    async def catch_up_pools(self, names: Iterable[str], *, within_s: float) -> None:
        """Like `catch_up`, for these pools or shards."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._drain_together(await self._ask(lambda c: positions(c, list(names))))

    async def _drain_together(self, wanted: Mapping[str, Position]) -> None:
        await asyncio.gather(*[self._drain_or_log(sku_id, at) for sku_id, at in wanted.items()])

    async def _drain_shared(self, sku_id: str, known: Sequence[Position], /) -> list[int]:
        """Serves all waiting callers; some know an older state of the ledger than others."""
        stored = await self.drain_some(sku_id, max(known, key=lambda at: (at.epoch, at.seq)))
        return [stored] * len(known)

    async def drain_some(self, sku_id: str, at: Position) -> int:
        """One transaction's worth, or nothing at the end of the journal; returns how many entries it was."""
        async with self._reading.turn(sku_id):
            left, entries = await self._read(sku_id, at)
        if not left and not entries:
            return 0
        has_to_wait = self._storing.has_to_wait(sku_id)
        if has_to_wait:
            # As many may wait as there are pools, so waiting holds no resources.
            left, entries = [], []
        async with self._storing.turn(sku_id):
            if has_to_wait:
                left, entries = await self._read(sku_id, at)
            started_ns = time_ns()
            reached = await self._store(sku_id, at, left, entries)
        if reached is None or reached.epoch != at.epoch:
            return 0
        stored = [entry for entry in entries if entry.seq <= reached.seq]
        await self._trim(sku_id, reached, left + stored)
        metrics.JOURNAL_ENTRIES.inc(len(stored))
        if self.on_stored is not None and stored:
            await self.on_stored(sku_id, stored, started_ns)
        return len(stored)

    async def _store(
        self, sku_id: str, at: Position, left: Sequence[Entry], entries: Sequence[Entry]
    ) -> Position | None:
        """The new position, if the journal continues what the ledger has."""
        if bool(left) and await self._database.write(lambda c: self._journal.park_reused_numbers(c, sku_id, left)):
            log.warning("journal_went_back", sku_id=sku_id, epoch=at.epoch, seq=at.seq)
            return None
        return await self._database.write(lambda c: self._journal.store(c, sku_id, entries))

    async def _read(self, sku_id: str, at: Position) -> tuple[list[Entry], list[Entry]]:
        """Entries that a dead drainer stored but did not trim, and the next ones: about a transaction's worth."""
        journal = Keys(sku_id).journal
        until_here: Command = ["XRANGE", journal, f"{at.epoch}-0", f"{at.epoch}-{at.seq}", "COUNT", ENTRIES_MAX]
        from_here = f"{at.epoch}-{at.seq + 1}", f"{at.epoch}-18446744073709551615"
        read: Command = ["XRANGE", journal, *from_here, "COUNT", ENTRIES_MAX]
        left, found, waiting = await self._client.call(journal, until_here, read, ["XLEN", journal])
        metrics.JOURNAL_LAG_ENTRIES.labels(sku_id).set(waiting)
        entries = _decoded(sku_id, found)
        (self._behind.add if waiting > len(left) + len(entries) else self._behind.discard)(sku_id)
        return _decoded(sku_id, left), entries

    async def unread(self, sku_id: str, at: Position) -> list[Entry]:
        """Every entry of the epoch still in the journal, including those that do not follow the ledger's position."""
        journal, entries, start = Keys(sku_id).journal, list[Entry](), 0
        while True:
            ids = f"{at.epoch}-{start}", f"{at.epoch}-18446744073709551615"
            [page] = await self._client.call(journal, ["XRANGE", journal, *ids, "COUNT", ENTRIES_MAX])
            entries += [decode_entry(sku_id, entry_id, payload) for entry_id, (_, payload) in page]
            if len(page) < ENTRIES_MAX:
                return entries
            start = entries[-1].seq + 1

    async def _trim(self, sku_id: str, at: Position, stored: list[Entry]) -> None:
        changed = (r for entry in stored for r in (*entry.changes.created, *entry.changes.moved))
        ended = {r.reservation_id for r in changed if r.status in _ENDED}
        await self._client.call_function("holdfast_trim_v2", Keys(sku_id).all, [at.epoch, at.seq, *ended])


def _after(at: Position, stored: int) -> Position:
    return Position(at.epoch, at.seq + stored)


def _decoded(sku_id: str, found: list[Any]) -> list[Entry]:
    entries: list[Entry] = []
    changes = 0
    for entry_id, (_, payload) in found:
        if changes >= CHANGES_MAX:
            break
        entries.append(decode_entry(sku_id, entry_id, payload))
        changes += len(entries[-1].changes.events)
    return entries
