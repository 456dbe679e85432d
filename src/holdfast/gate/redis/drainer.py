"""Copies the journal of a gate in Redis into the ledger.

The model. Each pool has one journal, whose entries are numbered without gaps within an epoch. A pass reads what follows
the ledger's position, stores it together with the new position in one transaction under the pool's lock, and only then
trims it in Redis. So an entry is stored exactly once and in order, wherever a drainer dies. Several may run, because
the lock admits one at a time and the next one finds the position moved.

What happens when it fails. Only committed entries are trimmed, so the next pass continues from there. What the ledger
refuses of an entry is parked (`parked_entries.py`). Entries that do not follow the ledger's position are left to the
reconciler.
"""

import asyncio
from contextlib import suppress
from time import monotonic, time_ns
from typing import Any

import structlog

from holdfast.domain.stock.reservation import Status
from holdfast.domain.stock.shards import whole_of
from holdfast.gate.engine import JournalObserver
from holdfast.gate.redis.client import RedisClient
from holdfast.gate.redis.encoding import Keys, decode_entry
from holdfast.gate.redis.link.port import Command
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.batch import Position, batch_queries
from holdfast.ledger.stock.journal import Entry, fold, position, positions
from holdfast.ledger.stock.parked_entries import ParkingJournal
from holdfast.runtime import metrics
from holdfast.runtime.agent import Agent
from holdfast.runtime.log import log_failure

log = structlog.get_logger()

# A pool with entries is read again at once; one without, less and less often.
# A confirm waits for the journal, so the drainer is back soon after an outage.
LONGEST_BACKOFF_S = 0.2
SHORTEST_REST_S = 0.02
LONGEST_REST_S = 0.32
# What fits in a transaction of some tens of milliseconds if entries are small; large ones end it earlier.
ENTRIES_MAX = 100
CHANGES_MAX = 4_000

CATCH_UP_S = 0.5
# Most pools have nothing new, and asking them one after another would take the time that the others need.
CAUGHT_UP_AT_ONCE = 16

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
    def __init__(self, database: Database, client: RedisClient) -> None:
        self._database = database
        self._client = client
        self._journal = ParkingJournal(batch_queries(database.dialect_name))
        self._rests: dict[str, _Rest] = {}
        # Set if traces are on.
        self.on_stored: JournalObserver | None = None

    def agent(self) -> Agent[int]:
        return Agent("drainer", self.pass_once, SHORTEST_REST_S, longest_backoff_s=LONGEST_BACKOFF_S)

    async def pass_once(self) -> int:
        """Drain some of every pool that is due; returns how many entries were stored."""
        at = await self._database.read(positions)
        due = {sku_id: where for sku_id, where in at.items() if self._rest(sku_id).until <= monotonic()}
        stored = 0
        for sku_id, where in due.items():
            count = await self._drain_or_log(sku_id, where)
            self._rest(sku_id).after(was_busy=count > 0)
            stored += count
        return stored

    async def _drain_or_log(self, sku_id: str, at: Position) -> int:
        """One failing pool must not block the journals of the others."""
        try:
            return await self.drain_some(sku_id, at)
        except Exception as exc:
            log_failure("drainer_pool_failed", exc, sku_id=sku_id)
        return 0

    def _rest(self, sku_id: str) -> _Rest:
        return self._rests.setdefault(sku_id, _Rest())

    async def drain_all(self, sku_id: str, at: Position) -> Position:
        """Drain a pool to the end of its journal."""
        while await self.drain_some(sku_id, at):
            at = (await self._database.read(positions))[sku_id]
        return at

    async def drain_until(self, sku_id: str, seen: Position) -> None:
        """Drain a pool at least up to a position that was seen, if it exists; the journal may grow meanwhile."""
        while (at := await self._database.read(lambda c: position(c, sku_id))) is not None and at.epoch == seen.epoch:
            stored = await self.drain_some(sku_id, at) if at.seq < seen.seq else 0
            if not stored or at.seq + stored >= seen.seq:
                return

    async def catch_up(self, sku_id: str | None) -> None:
        """Drain what is there now, of one pool or all, for as long as a caller can reasonably wait; no longer, and not
        if it fails: a list that is slightly behind is better than none."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_S):
                found = (await self._database.read(positions)).items()
                wanted = [(name, at) for name, at in found if sku_id in (None, whole_of(name))]
                turns = asyncio.Semaphore(CAUGHT_UP_AT_ONCE)
                await asyncio.gather(*[self._drain_all_or_log(name, at, turns) for name, at in wanted])

    async def _drain_all_or_log(self, sku_id: str, at: Position, turns: asyncio.Semaphore) -> None:
        try:
            async with turns:
                await self.drain_all(sku_id, at)
        except TimeoutError:
            raise
        except Exception as exc:
            log_failure("drainer_pool_failed", exc, sku_id=sku_id)

    async def drain_some(self, sku_id: str, at: Position) -> int:
        left, entries = await self._read(sku_id, at)
        if not left and not entries:
            return 0
        has_gone_back = bool(left) and await self._database.write(
            lambda c: self._journal.park_reused_numbers(c, sku_id, left)
        )
        if has_gone_back:
            log.warning("journal_went_back", sku_id=sku_id, epoch=at.epoch, seq=at.seq)
            return 0
        started_ns = time_ns()
        reached = await self._database.write(lambda c: self._journal.store(c, sku_id, entries))
        if reached is None or reached.epoch != at.epoch:
            return 0
        stored = [entry for entry in entries if entry.seq <= reached.seq]
        await self._trim(sku_id, reached, left + stored)
        metrics.JOURNAL_ENTRIES.inc(len(stored))
        if self.on_stored is not None and stored:
            await self.on_stored(sku_id, stored, started_ns)
        return len(stored)

    async def _read(self, sku_id: str, at: Position) -> tuple[list[Entry], list[Entry]]:
        """Entries that a dead drainer stored but did not trim, and those that follow: about a transaction's worth."""
        journal = Keys(sku_id).journal
        until_here: Command = ["XRANGE", journal, f"{at.epoch}-0", f"{at.epoch}-{at.seq}", "COUNT", ENTRIES_MAX]
        from_here = f"{at.epoch}-{at.seq + 1}", f"{at.epoch}-18446744073709551615"
        read: Command = ["XRANGE", journal, *from_here, "COUNT", ENTRIES_MAX]
        left, found, waiting = await self._client.call(journal, until_here, read, ["XLEN", journal])
        metrics.JOURNAL_LAG_ENTRIES.labels(sku_id).set(waiting)
        return _decoded(sku_id, left), _decoded(sku_id, found)

    async def unread(self, sku_id: str, at: Position) -> list[Entry]:
        """Every entry of the epoch that is still in the journal, also those that do not follow what the ledger has."""
        journal, entries, start = Keys(sku_id).journal, list[Entry](), 0
        while True:
            ids = f"{at.epoch}-{start}", f"{at.epoch}-18446744073709551615"
            [page] = await self._client.call(journal, ["XRANGE", journal, *ids, "COUNT", ENTRIES_MAX])
            entries += [decode_entry(sku_id, entry_id, payload) for entry_id, (_, payload) in page]
            if len(page) < ENTRIES_MAX:
                return entries
            start = entries[-1].seq + 1

    async def _trim(self, sku_id: str, at: Position, stored: list[Entry]) -> None:
        whole = fold([entry.changes for entry in stored])
        ended = [r.reservation_id for r in [*whole.created, *whole.moved] if r.status in _ENDED]
        await self._client.call_function("holdfast_trim_v2", Keys(sku_id).all, [at.epoch, at.seq, *ended])


def _decoded(sku_id: str, found: list[Any]) -> list[Entry]:
    entries: list[Entry] = []
    changes = 0
    for entry_id, (_, payload) in found:
        if changes >= CHANGES_MAX:
            break
        entries.append(decode_entry(sku_id, entry_id, payload))
        changes += len(entries[-1].changes.events)
    return entries
