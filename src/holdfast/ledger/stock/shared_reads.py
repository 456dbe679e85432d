"""Reads of pools and reservations, shared by their callers.

All callers that arrive during a read share the next one (`runtime/batching.py`). So a crowd that asks "how many are
left?" or "is it paid?" costs a few queries per second, and no response is older than its request.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from sqlalchemy import Connection

from holdfast.domain.stock.reservation import Reservation
from holdfast.errors import EngineError, Unavailable
from holdfast.ledger.engine.database import T, Work
from holdfast.ledger.stock.queries import PoolView, pool_queries, reservation_queries
from holdfast.runtime.batching import ONE_QUEUE, Failed, KeyedBatcher
from holdfast.runtime.log import log_failure

# Above the number of requests that a process accepts.
READERS_MAX = 65_536

Seen = TypeVar("Seen")

# The result of a read, by key: keys that do not exist are left out, and a failure may concern one key only.
Shown = Mapping[str, Seen | Unavailable]
Look = Callable[[Iterable[str]], Awaitable[Shown[Seen]]]
Views = Shown[PoolView]
LookAt = Look[PoolView]


class Ledger(Protocol):
    """A database, or reads that replicas serve for it."""

    @property
    def dialect_name(self) -> str: ...

    async def read(self, work: Work[T]) -> T: ...

    def now_ms(self, connection: Connection) -> int: ...


def look_into(database: Ledger) -> LookAt:
    """Reads pools that are decided in the database."""
    queries = pool_queries(database.dialect_name)

    async def look_at(sku_ids: Iterable[str]) -> Views:
        def views(connection: Connection) -> Views:
            return queries.views(connection, sku_ids, database.now_ms(connection))

        return await database.read(views)

    return look_at


def find_in(database: Ledger) -> Look[Reservation]:
    """Reads reservations from the ledger, by ID."""
    queries = reservation_queries(database.dialect_name)

    async def find(reservation_ids: Iterable[str]) -> Shown[Reservation]:
        def found(connection: Connection) -> Shown[Reservation]:
            return queries.found(connection, reservation_ids, database.now_ms(connection))

        return await database.read(found)

    return find


class SharedReads(Generic[Seen]):
    def __init__(self, read: Look[Seen]) -> None:
        self._read = read
        self._reads: KeyedBatcher[str, Seen | None] = KeyedBatcher(
            self._read_all, batch_max=READERS_MAX, queue_max=READERS_MAX
        )

    async def look(self, key: str, /) -> Seen | None:
        return await self._reads.submit(ONE_QUEUE, key)

    async def _read_all(self, _queue: str, keys: Sequence[str], /) -> list[Seen | Failed | None]:
        try:
            shown = await self._read(dict.fromkeys(keys))
        except Exception as exc:
            if not isinstance(exc, EngineError):
                log_failure("shared_read_failed", exc)
            raise Unavailable(str(exc)) from exc
        found = {key: Failed(seen) if isinstance(seen, Unavailable) else seen for key, seen in shown.items()}
        return [found.get(key) for key in keys]
