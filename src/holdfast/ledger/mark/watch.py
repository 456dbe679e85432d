"""Watches that the ledger does not go back.

The model. Several times a second the mark of the ledger is read and compared with the last one; at most once a second
it is stored outside (`MarkStore`: a file in the data directory, Redis). On every new connection, before its first
write, the ledger is compared with the last mark and with the latest reservations this process acknowledged. At the
start it is compared with the stored marks or, if there are none, with those that charges carry (`LastResort`).

If it went back, all writes stop (`LedgerGuard`), and this process exports its recent acknowledgements to a file. That
does not query the ledger, which may hang until an operator decides. The watch continues: after the decision (`holdfast
recover`), the ledger has a new incarnation and is used again. What this process remembers is then compared with the
decision (`Contribute`), whether it noticed the loss before that or was paused.

What it misses. While a process lives, on a direct connection: no reservation that it acknowledged, because commits are
lost from the latest backwards and the latest is remembered; of other writes, those of the last SAMPLE_S. A pooler that
keeps our connections over a failover hides the loss for SAMPLE_S. After a restart: writes of the last STORE_S before a
process was killed. A loss is undetectable if all marks are lost together with the ledger and nothing was charged
through a provider since.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, time
from typing import Protocol

import msgspec
import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from holdfast.errors import EngineError
from holdfast.ledger.chain.checkpoint import Checkpoint, CheckpointKey
from holdfast.ledger.engine.database import Database
from holdfast.ledger.mark.mark import (
    Acknowledged,
    KeptMark,
    Loss,
    Mark,
    begin_incarnation,
    is_of,
    read_incarnations,
    read_mark,
    went_back,
)
from holdfast.ledger.mark.mark_file import write_durably
from holdfast.runtime.agent import Agent
from holdfast.runtime.log import log_failure

log = structlog.get_logger()

SAMPLE_S = 0.25
STORE_S = 1.0
# The latest acknowledged reservations, looked up on every new connection. If any was lost, the last one was.
ASKED = 50

# Handles a mark that the ledger lacks, found elsewhere.
LastResort = Callable[[], Awaitable[Mark | None]]
LatestAcknowledged = Callable[[int], Sequence[Acknowledged]]
# Applies an operator's decision to reservations that were acknowledged before it. Safe to repeat.
Contribute = Callable[[Sequence[Acknowledged]], Awaitable[None]]


class MarkStore(Protocol):
    async def read(self) -> KeptMark | None: ...

    async def write(self, kept: KeptMark) -> None: ...


class LedgerWatch:
    def __init__(
        self,
        database: Database,
        place: str,
        stores: Sequence[MarkStore],
        exports: Path,
        acknowledged: LatestAcknowledged = lambda _count: (),
        last_resort: LastResort | None = None,
        key: CheckpointKey | None = None,
        contribute: Contribute | None = None,
    ) -> None:
        """`exports` is the directory for reports of what the ledger may lack. `acknowledged` returns up to a given
        number of the latest reservations that the ledger certainly has. `last_resort` is asked if no store has a mark.
        `key` signs the head of the chain."""
        self._database, self._guard = database, database.guard
        self._place, self._stores, self._exports = place, stores, exports
        self._acknowledged, self._last_resort = acknowledged, last_resort
        self._key, self._contribute = key, contribute
        self.checkpoint: Checkpoint | None = None
        self._seen: Mark | None = None
        self._stored: Mark | None = None
        self._stored_at = 0.0
        self._ledger: Mark | None = None
        self._exported: Sequence[Acknowledged] | None = None
        # Reservations from before a recovery, whose fate the operator has decided.
        self._decided: set[str] = set()
        self._noted = asyncio.Event()
        self._sampling: asyncio.Task[Mark | None] | None = None

    @property
    def finding(self) -> str | None:
        return self._guard.finding

    def agent(self) -> Agent[None]:
        return Agent("ledger_watch", self.pass_once, SAMPLE_S)

    async def start(self) -> None:
        """Compare with the stored marks before anything is written."""
        for kept in await self._kept():
            if self.finding is None:
                await self._database.read(lambda c, kept=kept: self._compare_stored(c, kept))  # type: ignore[misc]
        if self.finding is None:
            await self._ensure_incarnation()
            self._seen = await self._database.read(read_mark)
            self._guard.compare = self._compare
            await self._store()

    async def stop(self) -> None:
        """Store the mark after the last write. A server that cannot do so has still stopped cleanly: the stored mark is
        at most a second old."""
        self._stored_at = 0.0
        try:
            await self.pass_once()
        except (EngineError, OSError) as exc:
            log_failure("ledger_mark_not_stored", exc)

    async def _kept(self) -> list[KeptMark]:
        kept = [mark for store in self._stores if (mark := await store.read()) is not None]
        if kept or self._last_resort is None:
            return kept
        lacking = await self._last_resort()
        return [] if lacking is None else [KeptMark(self._place, lacking)]

    def _compare_stored(self, connection: Connection, kept: KeptMark) -> None:
        if not is_of(connection, kept, self._place):
            log.warning("ledger_mark_of_another_database", place=kept.place)
            return
        self._seen = kept.mark
        self._note(connection, went_back(connection, kept.mark))

    async def _ensure_incarnation(self) -> None:
        def ensure(connection: Connection) -> None:
            if not read_incarnations(connection):
                begin_incarnation(connection, 1, self._database.now_ms(connection))

        try:
            await self._database.write(ensure)
        except IntegrityError:
            log.info("ledger_incarnation_begun_by_another_process")

    async def pass_once(self) -> None:
        found = await self._sampled() if self.finding is None else None
        if self.finding is not None:
            await self._export()
            found = await self._database.read(self._read_if_decided)
            if found is None:
                return
        if self._seen is not None and found is not None and found.incarnation != self._seen.incarnation:
            await self._continue(found)
        self._seen = found
        if monotonic() - self._stored_at >= STORE_S:
            await self._store()

    async def _sampled(self) -> Mark | None:
        """A sample may hang while a new connection detects the loss; the export must not wait for it."""
        sampling = self._sampling = asyncio.create_task(self._database.read(self._sample))
        noted = asyncio.create_task(self._noted.wait())
        try:
            await asyncio.wait((sampling, noted), return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            sampling.cancel()
            raise
        finally:
            noted.cancel()
        if sampling.done():
            return sampling.result()
        sampling.add_done_callback(_ignore_outcome)
        return None

    def _sample(self, connection: Connection) -> Mark | None:
        """In this order, so that what is read last is at least as new as what was compared."""
        self._compare(connection)
        return read_mark(connection)

    def _compare(self, connection: Connection) -> None:
        if self._seen is not None:
            latest = [r for r in self._acknowledged(ASKED) if r.reservation_id not in self._decided]
            self._note(connection, went_back(connection, self._seen, latest))

    def _note(self, connection: Connection, finding: str | None) -> None:
        if finding is not None and self._guard.finding is None:
            self._guard.finding, self._ledger = finding, read_mark(connection)
            self._noted.set()
            log.error("ledger_went_back", finding=finding)

    def _read_if_decided(self, connection: Connection) -> Mark | None:
        assert self._seen is not None
        known = [each.incarnation for each in read_incarnations(connection)]
        return read_mark(connection) if self._seen.incarnation in known[:-1] else None

    async def _continue(self, mark: Mark) -> None:
        """An operator has decided, possibly without what this process remembers. Anything it acknowledges from now on
        was written after the decision: a batch in progress ends as unknown (`LedgerGuard.recoveries`)."""
        log.warning("ledger_recovered", incarnation=mark.incarnation)
        known = self._acknowledged(sys.maxsize)
        self._guard.recoveries += 1
        self._guard.finding, self._guard.compare = None, self._compare
        self._exported = None
        self._noted.clear()
        if self._sampling is not None:
            # A sample that still hangs compares with the state before.
            self._sampling.cancel()
        if self._contribute is not None:
            await self._contribute([r for r in known if r.reservation_id not in self._decided])
        self._decided = {r.reservation_id for r in known}
        self._stored_at = 0.0

    async def _store(self) -> None:
        if self._seen is None or self.finding is not None:
            return
        if self._seen != self._stored:
            self._sign(self._seen)
            for store in self._stores:
                # Redis may be down; the file is kept anyway.
                with suppress(EngineError):
                    await store.write(KeptMark(self._place, self._seen, self.checkpoint))
        self._stored, self._stored_at = self._seen, monotonic()

    def _sign(self, mark: Mark) -> None:
        """Does nothing if nothing was linked since the last checkpoint."""
        if self._key is None or not mark.head.links:
            return
        if self.checkpoint is None or self.checkpoint.root != mark.head.root:
            self.checkpoint = self._key.sign(mark.incarnation, mark.head, int(time() * 1000))

    async def _export(self) -> None:
        """Export what this process acknowledged; repeated if batches in progress have added to it."""
        latest = self._acknowledged(1)
        if latest == self._exported:
            return
        assert self._seen is not None
        await self._keep(Loss(str(self.finding), self._seen, self._ledger, self._acknowledged(sys.maxsize)))
        self._exported = latest

    async def _keep(self, loss: Loss) -> None:
        file = self._exports / f"ledger-went-back-{loss.seen.incarnation}-{loss.seen.seq}.json"
        await asyncio.to_thread(write_durably, file, msgspec.json.encode(loss))
        log.error("ledger_loss_exported", file=str(file), reservations=len(loss.reservations))


def _ignore_outcome(task: "asyncio.Task[Mark | None]") -> None:
    if not task.cancelled():
        task.exception()
