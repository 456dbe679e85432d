"""Where a trace continues: background work finds the trace of a reservation here.

Traces are stored next to the reservation and not in its transaction: losing a trace only loses some insight, and must
not cost a sale. A trace is in this process's memory immediately, and in the ledger a moment later. Several are written
together, because a transaction for each would cost more than all of its spans. A faster worker finds no trace, and the
trace ends early.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context

from sqlalchemy import Connection, delete, select

from holdfast.errors import Busy, EngineError
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.rows import encode_rows, rows_matching, upsert_rows
from holdfast.ledger.tables.traces import traces
from holdfast.runtime.batching import ONE_QUEUE, KeyedBatcher
from holdfast.runtime.tracing.context import TraceContext, stored_context

# For settlement in the same process, which may begin before the row is written.
RECENT_MAX = 2_000
BATCH_MAX = 256
QUEUE_MAX = 2_000
WRITE_AFTER_S = 0.05

_COLUMNS = [traces.c.reservation_id, traces.c.traceparent, traces.c.created_at]


class TraceStore:
    def __init__(self, database: Database) -> None:
        self._database = database
        dialect = database.dialect_name
        self._upsert = upsert_rows(dialect, traces, _COLUMNS, traces.c.reservation_id, _COLUMNS[1:])
        self._matching = rows_matching(dialect, traces, [traces.c.reservation_id])
        self._recent: dict[str, str] = {}
        self._unwritten: dict[str, str] = {}
        self._writes: KeyedBatcher[tuple[str, str], None] = KeyedBatcher(
            self._write, batch_max=BATCH_MAX, queue_max=QUEUE_MAX
        )
        self._looks: KeyedBatcher[str, TraceContext | None] = KeyedBatcher(
            self._look, batch_max=BATCH_MAX, queue_max=QUEUE_MAX
        )

    def note(self, reservation_id: str, context: TraceContext) -> None:
        """Later work on this reservation belongs to this trace."""
        if len(self._recent) >= RECENT_MAX:
            del self._recent[next(iter(self._recent))]
        self._recent[reservation_id] = context.traceparent
        if not self._unwritten:
            asyncio.get_running_loop().call_later(WRITE_AFTER_S, self._submit_writes, context=Context())
        self._unwritten[reservation_id] = context.traceparent

    def _submit_writes(self) -> None:
        notes, self._unwritten = self._unwritten, {}
        with suppress(Busy):
            for note in notes.items():
                self._writes.submit(ONE_QUEUE, note).add_done_callback(_forget)

    def find(self, connection: Connection, ids: Iterable[str | None]) -> dict[str, str]:
        """The traceparents of the reservations that are traced."""
        wanted = {id_ for id_ in ids if id_ is not None}
        found = {id_: self._recent[id_] for id_ in wanted & self._recent.keys()}
        missing = [[id_] for id_ in wanted - found.keys()]
        if missing:
            rows = connection.execute(self._matching, {"rows": encode_rows(missing)})
            found |= {row.reservation_id: row.traceparent for row in rows}
        return found

    async def context_of(self, reservation_id: str) -> TraceContext | None:
        """Also None if the ledger does not respond: nothing depends on a trace."""
        if reservation_id in self._recent:
            return stored_context(self._recent[reservation_id])
        try:
            return await self._looks.submit(ONE_QUEUE, reservation_id)
        except (EngineError, Busy):
            return None

    async def drain(self) -> None:
        self._submit_writes()
        await self._writes.drain()

    async def _write(self, _key: str, notes: Sequence[tuple[str, str]], /) -> list[None]:
        latest = dict(notes)  # An upsert must not have the same key twice.
        await self._database.write(lambda c: self._upsert_all(c, latest))
        return [None] * len(notes)

    def _upsert_all(self, connection: Connection, latest: Mapping[str, str]) -> None:
        now = self._database.now_ms(connection)
        rows = [(id_, traceparent, now) for id_, traceparent in latest.items()]
        connection.execute(self._upsert, {"rows": encode_rows(rows)})

    async def _look(self, _key: str, ids: Sequence[str], /) -> list[TraceContext | None]:
        found = await self._database.read(lambda c: self.find(c, ids))
        return [stored_context(found.get(id_)) for id_ in ids]


def trace_id_of(connection: Connection, reservation_id: str) -> str | None:
    query = select(traces.c.traceparent).where(traces.c.reservation_id == reservation_id)
    context = stored_context(connection.execute(query).scalar_one_or_none())
    return None if context is None else context.trace_id


def prune_traces(connection: Connection, older_than: int, *, limit: int) -> int:
    old = select(traces.c.reservation_id).where(traces.c.created_at < older_than).limit(limit)
    return connection.execute(delete(traces).where(traces.c.reservation_id.in_(old))).rowcount


def _forget(written: "asyncio.Future[None]") -> None:
    """A trace that could not be stored ends early."""
    if not written.cancelled():
        written.exception()
