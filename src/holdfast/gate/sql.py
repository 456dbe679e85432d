"""The gate on SQLite and PostgreSQL: one lock and one commit per batch.

Lock the pool's row, read what the batch touches, decide, write the changes in bulk, commit. The commit is the moment
of truth: before it nothing has happened, after it the verdicts may be told. Several processes may do this on one
PostgreSQL; the row lock puts their batches in a line. If the CHECK on the pool's row ever fails, the rulebook has a
defect, the batch is rolled back whole and nobody was told yes. On PostgreSQL, where all of that is a round trip each, a
batch to which everything can be granted is one statement (`grant_at_once.py`).

Where the last batch changed nothing, as in a pool that is sold out, attempts are first decided by a glance: without the
lock and without the disk, from one view of what is committed, by the same rulebook. If nothing would change again, each
verdict is what the lock would have led to at the moment of that view, which was after the attempt came; so a key that
was granted before, by whatever process, gets its first answer. If anything would change (a unit is free, a deadline has
passed), what was seen is thrown away and the batch is decided under the lock.
"""

from collections.abc import Sequence
from functools import partial
from time import perf_counter

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from holdfast import metrics
from holdfast.domain.command import Command, Reserve, Verdict
from holdfast.domain.rulebook import decide
from holdfast.domain.state import Changes
from holdfast.ledger.batch import BatchQueries
from holdfast.ledger.database import Database
from holdfast.ledger.grant_at_once import GrantAtOnce

# Pools of which it is known that a glance may be enough. Beyond that, all are found out anew.
UNCHANGED_MAX = 10_000
UNIQUE_VIOLATION = "23505"
_NOTHING = Changes()


class SqlGate:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.queries = BatchQueries(database.dialect_name)
        self.at_once = None if database.dialect_name == "sqlite" else GrantAtOnce()
        self._unchanged: set[str] = set()

    async def apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        if sku_id in self._unchanged:
            verdicts = await self._glance(sku_id, commands)
            if verdicts is not None:
                return verdicts
        started = perf_counter()
        verdicts = await self._grant_at_once(sku_id, commands)
        if verdicts is None:
            verdicts = await self._database.write(lambda c: self.decide(c, sku_id, commands), brief=True)
        metrics.COMMIT_SECONDS.observe(perf_counter() - started)
        return verdicts

    async def _grant_at_once(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict] | None:
        at_once = self.at_once
        attempts = None if at_once is None else at_once.attempts_in(sku_id, commands)
        if at_once is None or attempts is None:
            return None
        grant = partial(at_once.grant, sku_id, attempts, self._database.known_now_ms())
        try:
            verdicts = await self._database.write(grant, at_once=True)
        except IntegrityError as exc:
            if getattr(exc.orig, "sqlstate", None) != UNIQUE_VIOLATION:
                raise
            # A key was used elsewhere in this very moment. Nothing was written.
            at_once.go_the_long_way(sku_id)
            return None
        if verdicts is not None:
            self._unchanged.discard(sku_id)
        return verdicts

    async def _glance(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict] | None:
        """The verdicts, if they change nothing."""
        attempts = [command for command in commands if isinstance(command, Reserve)]
        if len(attempts) < len(commands):
            return None

        def look(connection: Connection) -> list[Verdict] | None:
            state, decided_at = self.queries.see(connection, sku_id, attempts)
            now = max(self._database.now_ms(connection), decided_at)
            if any(reservation.is_due(now) for reservation in state.reservations.values()):
                return None
            decision = decide(state, attempts, now)
            return decision.verdicts if decision.changes == _NOTHING else None

        return await self._database.glance(look)

    def decide(self, connection: Connection, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        locked = self.queries.lock(connection, sku_id, commands)
        now = locked.now(connection, self._database)
        state = self.queries.load(connection, locked, commands, now)
        started = perf_counter()
        decision = decide(state, commands, now)
        metrics.DECIDE_SECONDS.observe(perf_counter() - started)
        self.queries.store(connection, locked, decision.changes, now)
        self._note(sku_id, decision.changes)
        return decision.verdicts

    def _note(self, sku_id: str, changes: Changes) -> None:
        if changes != _NOTHING:
            self._unchanged.discard(sku_id)
            return
        if len(self._unchanged) >= UNCHANGED_MAX:
            self._unchanged.clear()
        self._unchanged.add(sku_id)
