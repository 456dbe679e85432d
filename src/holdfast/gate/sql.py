"""The gate on SQLite and PostgreSQL: one lock and one commit per batch.

Lock the pool's row, read what the batch touches, decide, write the changes in bulk, commit (`ledger/stock/decide.py`).
Before the commit nothing has happened; after it the verdicts may be returned. Several processes may do this on one
PostgreSQL: the row lock queues their batches. If the CHECK on the pool's row ever fails, the rulebook has a defect; the
batch is rolled back as a whole and nothing was granted. On PostgreSQL, where each step is a round trip, a batch that
can be granted entirely is one statement, and one that only moves reservations is a read and a statement
(`ledger/stock/without_transaction/`).

If the last batch changed nothing, as in a sold-out pool, attempts are first decided on a lock-free read of one
committed snapshot, by the same rulebook and without touching the disk. If nothing would change again, each verdict is
what it would have been under the lock at the moment of that snapshot. The snapshot is newer than the attempt, so a key
that any process granted before gets its first result. If anything would change (a unit is free, a deadline has passed),
the result is discarded and the batch is decided under the lock.

A pool whose lock could not be acquired in time is remembered for a while (`locked_pools.py`): operators see its name,
and callers are refused sooner.
"""

from collections import deque
from collections.abc import Sequence
from time import monotonic, perf_counter
from typing import Protocol

from sqlalchemy import Connection

from holdfast.domain.stock.command import Command, Reserve, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.state import Decision
from holdfast.errors import Cause, OutcomeUnknown, Unavailable
from holdfast.gate.locked_pools import LockedPools
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.limits import LockLimits
from holdfast.ledger.mark.mark import Acknowledged
from holdfast.ledger.stock.batch import batch_queries
from holdfast.ledger.stock.decide import NO_CHANGES, decide_batch, decide_without_lock
from holdfast.ledger.stock.without_transaction.guarded_moves import GuardedMoves
from holdfast.ledger.stock.without_transaction.single_statement_grant import SingleStatementGrant
from holdfast.runtime import metrics

# Pools whose last batch changed nothing. Beyond this many, all are forgotten.
UNCHANGED_MAX = 10_000
# Batches whose verdicts are kept. If the ledger goes back in time, they are the only record of what it lost.
REMEMBERED_BATCHES = 256
# Retention of these batches: ended reservations may be deleted from the ledger after two days
# (`ledger/stock/pruning.py`).
REMEMBERED_S = 24 * 3_600.0
_ACKNOWLEDGED = frozenset({Outcome.RESERVED, Outcome.REPLAYED, Outcome.MOVED})


class WithoutTransaction(Protocol):
    async def decide(
        self, database: Database, sku_id: str, commands: Sequence[Command], limits: LockLimits
    ) -> Decision | None:
        """None if nothing was written and the batch needs a transaction."""


class SqlGate:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.queries = batch_queries(database.dialect_name)
        is_far = database.dialect_name == "postgresql"
        self.without_transaction: Sequence[WithoutTransaction] = (
            (SingleStatementGrant(), GuardedMoves()) if is_far else ()
        )
        self._unchanged: set[str] = set()
        self._answered: deque[tuple[float, Sequence[Command], list[Verdict]]] = deque(maxlen=REMEMBERED_BATCHES)
        self.locked_pools = LockedPools()

    async def apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        try:
            verdicts = await self._apply(sku_id, commands)
        except Unavailable as exc:
            if exc.cause is Cause.LOCK_TIMEOUT:
                self.locked_pools.add(sku_id)
            raise
        self.locked_pools.discard(sku_id)
        return verdicts

    async def _apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        recoveries = self._database.guard.recoveries
        if sku_id in self._unchanged:
            verdicts = await self._decide_without_lock(sku_id, commands)
            if verdicts is not None:
                # Refusals are left out: they are so many that they would displace the grants.
                if any(verdict.outcome is Outcome.REPLAYED for verdict in verdicts):
                    self._remember(recoveries, commands, verdicts)
                return verdicts
        started = perf_counter()
        verdicts = await self._decide_without_transaction(sku_id, commands)
        if verdicts is None:
            verdicts = await self._database.write(lambda c: self.decide(c, sku_id, commands), brief=True)
        metrics.COMMIT_SECONDS.observe(perf_counter() - started)
        self._remember(recoveries, commands, verdicts)
        return verdicts

    def _remember(self, recoveries: int, commands: Sequence[Command], verdicts: list[Verdict]) -> None:
        if self._database.guard.recoveries != recoveries:
            raise OutcomeUnknown("the ledger went back while this was decided, and may lack it")
        self._answered.append((monotonic(), commands, verdicts))

    def acknowledged(self, count: int) -> list[Acknowledged]:
        """The reservations last granted, repeated or moved, as last seen: up to `count`, latest first.

        A repeat returns the first answer, so it does not show a later state; the grant itself may be unknown here."""
        latest: dict[str, Acknowledged] = {}
        changed: set[str] = set()
        since = monotonic() - REMEMBERED_S
        # A copy: on SQLite this runs in a thread, and batches are answered meanwhile.
        for at, commands, verdicts in reversed(tuple(self._answered)):
            if at < since:
                break
            for command, verdict in zip(reversed(commands), reversed(verdicts), strict=True):
                if verdict.outcome not in _ACKNOWLEDGED or verdict.reservation is None:
                    continue
                id_ = verdict.reservation.reservation_id
                if len(latest) == count and id_ not in latest:
                    return list(latest.values())
                seen = latest[id_].reservation if id_ in changed else verdict.reservation
                latest[id_] = Acknowledged(seen, *_key_of(command))
                if verdict.outcome is not Outcome.REPLAYED:
                    changed.add(id_)
        return list(latest.values())

    def decide(self, connection: Connection, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        """Decide a batch within a transaction of the caller."""
        limits = self.locked_pools.limits(sku_id)
        decision = decide_batch(connection, self.queries, self._database, sku_id, commands, limits)
        return self._verdicts(sku_id, decision)

    async def _decide_without_transaction(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict] | None:
        limits = self.locked_pools.limits(sku_id)
        for way in self.without_transaction:
            decision = await way.decide(self._database, sku_id, commands, limits)
            if decision is not None:
                return self._verdicts(sku_id, decision)
        return None

    async def _decide_without_lock(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict] | None:
        attempts = [command for command in commands if type(command) is Reserve]
        if len(attempts) < len(commands):
            return None
        return await self._database.lock_free_read(
            lambda c: decide_without_lock(c, self.queries, self._database, sku_id, attempts)
        )

    def _verdicts(self, sku_id: str, decision: Decision) -> list[Verdict]:
        if decision.changes != NO_CHANGES:
            self._unchanged.discard(sku_id)
        else:
            if len(self._unchanged) >= UNCHANGED_MAX:
                self._unchanged.clear()
            self._unchanged.add(sku_id)
        return decision.verdicts


def _key_of(command: Command) -> tuple[str | None, str]:
    return (command.key, command.fingerprint) if isinstance(command, Reserve) else (None, "")
