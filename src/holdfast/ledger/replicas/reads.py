"""Reads of the ledger, from a suitable replica if there is one (docs/adr/0018-reads-from-replicas.md).

The model. Before a read goes to a replica, the primary is asked for its current log position; that is one number, and
concurrent reads share the query. The replica must have replayed up to that position, or the primary is read instead. So
no response is older than its request, whichever process took the write, and buyers always see their own writes. A
caller who sends the token of their last write (`Holdfast-Seen`) requires only that position, so the primary is not
asked.

A replica is skipped while it lags more than `LAG_MAX_MS`, does not respond, is no longer a replica, or follows another
primary. That saves time; correctness depends on the position alone.

When it fails. Whatever goes wrong with a replica, the primary is read. Without the primary there are no reads.
"""

import asyncio
from collections.abc import Sequence
from itertools import count
from time import monotonic
from typing import TypeVar

from sqlalchemy import Connection

from holdfast.errors import Unavailable
from holdfast.ledger.engine.database import Database, SharedDatabase, Work
from holdfast.ledger.replicas.lag import Note, PrimaryNotes
from holdfast.ledger.replicas.position import position_of, token_of, written_position
from holdfast.ledger.replicas.replica import Behind, Replica, Standing, newest_heartbeat
from holdfast.runtime import metrics
from holdfast.runtime.agent import Agent
from holdfast.runtime.batching import ONE_QUEUE, KeyedBatcher

T = TypeVar("T")

MEASURE_EVERY_S = 0.1
# Above the number of requests that a process accepts.
READERS_MAX = 65_536

_from_replica, _from_primary = (metrics.LEDGER_READS.labels(source) for source in ("replica", "primary"))


class LedgerReads:
    def __init__(self, primary: Database, replicas: Sequence[Replica] = (), *, has_tokens: bool = True) -> None:
        """`has_tokens` is false where writes reach the ledger later, because then no log position can represent a
        write."""
        self.dialect_name = primary.dialect_name
        self._primary, self._replicas = primary, replicas
        self._ask_primary = primary.read_statement if isinstance(primary, SharedDatabase) else primary.read
        self.has_tokens = has_tokens and bool(replicas)
        self._notes = PrimaryNotes()
        self._turn = count()
        self._positions: KeyedBatcher[None, int] = KeyedBatcher(
            self._read_positions, batch_max=READERS_MAX, queue_max=READERS_MAX
        )

    @property
    def standings(self) -> list[Standing]:
        return [replica.standing for replica in self._replicas]

    def now_ms(self, connection: Connection) -> int:
        return self._primary.now_ms(connection)

    async def read(self, work: Work[T], seen: str | None = None) -> T:
        """`seen` is the token from the caller's last write."""
        if not self._replicas:
            return await self._primary.read(work)
        replica = self._next_fit()
        if replica is not None:
            known = position_of(seen) if self.has_tokens else None
            position = await self._position() if known is None else known
            try:
                found = await replica.read(work, position)
            except (Behind, Unavailable):
                pass
            else:
                _from_replica.inc()
                return found
        _from_primary.inc()
        return await self._primary.read(work)

    async def token(self) -> str:
        """A token for later reads, which then see everything written up to now."""
        return token_of(await self._position())

    def _next_fit(self) -> Replica | None:
        fit = [replica for replica in self._replicas if replica.is_fit]
        return fit[next(self._turn) % len(fit)] if fit else None

    def _position(self) -> "asyncio.Future[int]":
        return self._positions.submit(ONE_QUEUE, None)

    async def _read_positions(self, _queue: str, askers: Sequence[None], /) -> list[int]:
        return [await self._ask_primary(written_position)] * len(askers)

    def agent(self) -> Agent[None]:
        return Agent("replica_monitor", self.measure, MEASURE_EVERY_S, jitter=0.0)

    async def measure(self) -> None:
        position, heartbeat = await self._primary.read(_look)
        self._notes.add(Note(monotonic(), position, heartbeat))
        await asyncio.gather(*[replica.measure(self._notes) for replica in self._replicas])

    async def close(self) -> None:
        for replica in self._replicas:
            await replica.close()


def _look(connection: Connection) -> tuple[int, int]:
    # The heartbeat first: a noted heartbeat must have been written at or before the noted position.
    heartbeat: int = connection.execute(newest_heartbeat).scalar_one()
    return written_position(connection), heartbeat
