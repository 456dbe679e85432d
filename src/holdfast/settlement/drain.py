"""The journal of a gate in Redis becomes the ledger.

The model. Each pool has one journal, whose entries are numbered without gaps within an epoch. A pass reads what comes
after the ledger's position, stores it together with the new position in one transaction under the pool's lock, and only
then lets Redis forget it. So an entry is stored exactly once, in order, wherever a drainer dies; and several may run,
because the lock lets one work on a pool at a time and the next one finds the position moved.

What happens when it fails. Nothing is trimmed that was not committed, so the next pass goes on from there. Entries that
do not follow the ledger's position are not for the drainer to judge: the reconciler is.
"""

import asyncio
from contextlib import suppress
from time import monotonic
from typing import Any

import structlog

from holdfast import metrics
from holdfast.domain.reservation import Status
from holdfast.domain.shards import whole_of
from holdfast.errors import EngineError
from holdfast.gate.encoding import Keys, decode_entry
from holdfast.gate.link.port import Command, RedisLink
from holdfast.ledger.batch import BatchQueries, Position
from holdfast.ledger.database import Database
from holdfast.ledger.journal import Entry, Journal, fold, position, positions

log = structlog.get_logger()

# A pool with something to drain is looked at again at once; one without, less and less often.
SHORTEST_REST_S = 0.02
LONGEST_REST_S = 0.32
# As many entries as a transaction of some tens of milliseconds holds, if they are small; large ones end it earlier.
ENTRIES_MAX = 100
CHANGES_MAX = 4_000

# A list that is a little behind is better than none.
CATCH_UP_S = 0.5

_ENDED = {Status.CONFIRMED, Status.FAILED, Status.CANCELLED, Status.EXPIRED}


class _Rest:
    """How long a pool without news is left alone."""

    def __init__(self) -> None:
        self.seconds = SHORTEST_REST_S
        self.until = 0.0

    def after(self, *, was_busy: bool) -> None:
        self.seconds = SHORTEST_REST_S if was_busy else min(self.seconds * 2, LONGEST_REST_S)
        self.until = monotonic() + (0.0 if was_busy else self.seconds)


class Drainer:
    def __init__(self, database: Database, link: RedisLink) -> None:
        self._database = database
        self._link = link
        self._journal = Journal(BatchQueries(database.dialect_name))
        self._rests: dict[str, _Rest] = {}

    async def run(self) -> None:
        while True:
            try:
                await self.pass_once()
            except EngineError as exc:
                log.warning("drainer_pass_failed", error=str(exc))
            except Exception:
                log.exception("drainer_pass_failed")
            await asyncio.sleep(SHORTEST_REST_S)

    async def pass_once(self) -> int:
        """Drain some of every pool that is due for a look; gives how many entries were stored."""
        at = await self._database.read(positions)
        due = {sku_id: where for sku_id, where in at.items() if self._rest(sku_id).until <= monotonic()}
        stored = 0
        for sku_id, where in due.items():
            count = await self._drain_or_tell(sku_id, where)
            self._rest(sku_id).after(was_busy=count > 0)
            stored += count
        return stored

    async def _drain_or_tell(self, sku_id: str, at: Position) -> int:
        """One pool that fails must not keep the journals of the others."""
        try:
            return await self.drain_some(sku_id, at)
        except EngineError as exc:
            log.warning("drainer_pool_failed", sku_id=sku_id, error=str(exc))
        except Exception:
            log.exception("drainer_pool_failed", sku_id=sku_id)
        return 0

    def _rest(self, sku_id: str) -> _Rest:
        return self._rests.setdefault(sku_id, _Rest())

    async def drain_all(self, sku_id: str, at: Position) -> Position:
        """Drain a pool to the end of its journal."""
        while await self.drain_some(sku_id, at):
            at = (await self._database.read(positions))[sku_id]
        return at

    async def drain_until(self, sku_id: str, seen: Position) -> None:
        """Drain a pool at least up to what was seen of it, if that is there; others may add to it all the time."""
        while (at := await self._database.read(lambda c: position(c, sku_id))) is not None and at.epoch == seen.epoch:
            stored = await self.drain_some(sku_id, at) if at.seq < seen.seq else 0
            if not stored or at.seq + stored >= seen.seq:
                return

    async def catch_up(self, sku_id: str | None) -> None:
        """Drain what is there now, of one pool or of all, for as long as somebody who asks can be kept waiting."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_S):
                for name, at in (await self._database.read(positions)).items():
                    if sku_id in (None, whole_of(name)):
                        await self.drain_all(name, at)

    async def drain_some(self, sku_id: str, at: Position) -> int:
        left, entries = await self._read(sku_id, at)
        if not left and not entries:
            return 0
        reached = await self._database.write(lambda c: self._journal.store(c, sku_id, entries))
        if reached is None or reached.epoch != at.epoch:
            return 0
        stored = [entry for entry in entries if entry.seq <= reached.seq]
        await self._trim(sku_id, reached, left + stored)
        metrics.JOURNAL_ENTRIES.inc(len(stored))
        return len(stored)

    async def _read(self, sku_id: str, at: Position) -> tuple[list[Entry], list[Entry]]:
        """What somebody stored and died before he could trim it, and what comes next; each up to about as much as one
        transaction should hold."""
        journal = Keys(sku_id).journal
        until_here: Command = ["XRANGE", journal, f"{at.epoch}-0", f"{at.epoch}-{at.seq}", "COUNT", ENTRIES_MAX]
        from_here = f"{at.epoch}-{at.seq + 1}", f"{at.epoch}-18446744073709551615"
        read: Command = ["XRANGE", journal, *from_here, "COUNT", ENTRIES_MAX]
        left, found, waiting = await self._link.call(journal, until_here, read, ["XLEN", journal])
        metrics.JOURNAL_LAG_ENTRIES.labels(sku_id).set(waiting)
        return _decoded(sku_id, left), _decoded(sku_id, found)

    async def _trim(self, sku_id: str, at: Position, stored: list[Entry]) -> None:
        keys = Keys(sku_id)
        whole = fold([entry.changes for entry in stored])
        ended = [r.reservation_id for r in [*whole.created, *whole.moved] if r.status in _ENDED]
        call: Command = ["FCALL", "holdfast_trim_v1", 3, keys.pool, keys.holds, keys.journal, at.epoch, at.seq, *ended]
        await self._link.call(keys.pool, call)


def _decoded(sku_id: str, found: list[Any]) -> list[Entry]:
    entries: list[Entry] = []
    changes = 0
    for entry_id, (_, payload) in found:
        if changes >= CHANGES_MAX:
            break
        entries.append(decode_entry(sku_id, entry_id, payload))
        changes += len(entries[-1].changes.events)
    return entries
