"""One replica: whether it can be read, and reads that require a position of it."""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from msgspec import Struct
from sqlalchemy import Connection, func, select

from holdfast.errors import EngineError
from holdfast.ledger.engine.database import IS_REPLICA, Database, Work
from holdfast.ledger.replicas.lag import PrimaryNotes
from holdfast.ledger.replicas.position import replayed_position
from holdfast.ledger.tables.heartbeats import heartbeats
from holdfast.runtime import metrics

T = TypeVar("T")

# A replica further behind is skipped: nearly every read would wait for it, and then be served by the primary anyway.
LAG_MAX_MS = 100
# Maximum age of a measurement. The next one may be late because this process is busy.
FRESH_S = 2.0
MEASURE_TIMEOUT_S = 1.0
# Replication takes a few milliseconds, and falling back to the primary takes too little time for a caller to notice.
PATIENCE_S = (0.002, 0.004, 0.008)

newest_heartbeat = select(func.coalesce(func.max(heartbeats.c.at), 0))


class Behind(Exception):
    """The replica lacks what the caller must see."""


class Standing(Struct, frozen=True):
    name: str
    # None if it could not be measured.
    lag_ms: int | None
    # Why the replica is skipped; None if it can be used.
    reason: str | None


class Replica:
    def __init__(self, name: str, database: Database, now: Callable[[], float] = monotonic) -> None:
        self.name, self._database, self._now = name, database, now
        self._standing = Standing(name, None, "starting")
        self._measured_at = now()
        self._lag, self._fit = metrics.REPLICA_LAG_SECONDS.labels(self.name), metrics.REPLICA_FIT.labels(self.name)

    @property
    def standing(self) -> Standing:
        if self._standing.reason is None and self._now() - self._measured_at > FRESH_S:
            return Standing(self.name, None, "not_measured")
        return self._standing

    @property
    def is_fit(self) -> bool:
        return self.standing.reason is None

    async def measure(self, notes: PrimaryNotes) -> None:
        try:
            async with asyncio.timeout(MEASURE_TIMEOUT_S):
                replayed, heartbeat = await self._database.read(_look)
        except (EngineError, TimeoutError):
            standing = Standing(self.name, None, "no_answer")
        else:
            standing = self._judged(notes, replayed, heartbeat)
        self._standing, self._measured_at = standing, self._now()
        self._fit.set(standing.reason is None)
        if standing.lag_ms is not None:
            self._lag.set(standing.lag_ms / 1000)

    def _judged(self, notes: PrimaryNotes, replayed: int | None, heartbeat: int) -> Standing:
        if replayed is None:
            return Standing(self.name, None, "not_a_replica")
        if notes.is_diverged(replayed, heartbeat):
            return Standing(self.name, None, "diverged")
        lag_ms = round(notes.lag_s(replayed, self._now()) * 1000)
        return Standing(self.name, lag_ms, "lag" if lag_ms > LAG_MAX_MS else None)

    async def read(self, work: Work[T], position: int) -> T:
        """Raises `Behind` if the replica does not reach the position in time."""
        for wait_s in PATIENCE_S:
            try:
                return await self._read_once(work, position)
            except Behind:
                await asyncio.sleep(wait_s)
        return await self._read_once(work, position)

    async def _read_once(self, work: Work[T], position: int) -> T:
        def checked(connection: Connection) -> T:
            connection.info[IS_REPLICA] = True
            # A separate statement: each statement sees what was replayed before it began.
            replayed = replayed_position(connection)
            if replayed is None or replayed < position:
                raise Behind(f"replica {self.name} lacks what was written last")
            return work(connection)

        return await self._database.read(checked)

    async def close(self) -> None:
        await self._database.close()


def _look(connection: Connection) -> tuple[int | None, int]:
    connection.info[IS_REPLICA] = True
    return replayed_position(connection), connection.execute(newest_heartbeat).scalar_one()
