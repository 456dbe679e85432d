"""Settlement that continues the traces of the requests that started it.

Spans of ledger work are recorded after the commit, so that none shows an order that does not exist.
"""

from collections.abc import Awaitable, Collection, Sequence
from time import time_ns
from typing import Any

from sqlalchemy import Connection

from holdfast.domain.sale.sale import order_id_of
from holdfast.domain.sale.settling_case import Effect, Event
from holdfast.ledger.events.traces import TraceStore
from holdfast.ledger.money.settle_batch import Lease
from holdfast.runtime.tracing.context import TraceContext, current_trace, stored_context
from holdfast.runtime.tracing.tracer import Attributes, Kind, Tracer, spanning
from holdfast.settlement.interpreter import Interpreter
from holdfast.settlement.posting import Posting
from holdfast.settlement.record import Record

_SOLD = "confirmed"


class TracedPosting(Posting):
    def __init__(self, traces: TraceStore, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._traces = traces

    def _load(self, connection: Connection, leases: Sequence[Lease], claimed: Collection[str]) -> list[Record | None]:
        started = time_ns()
        records = super()._load(connection, leases, claimed)
        found = self._traces.find(connection, [lease.reservation_id for lease in leases])
        if found:
            for record in records:
                if record is not None:
                    record.trace, record.loaded_ns = stored_context(found.get(record.reservation_id)), started
        return records


class TracedInterpreter(Interpreter):
    def __init__(self, tracer: Tracer, traces: TraceStore, *args: Any) -> None:
        super().__init__(*args)
        self._tracer, self._traces = tracer, traces
        # By reservation: the span of the settlement in progress.
        self._walking: dict[str, TraceContext] = {}

    async def _guarded(self, lease: Lease, work: Awaitable[None]) -> None:
        id_ = lease.reservation_id
        trace = await self._traces.context_of(id_)
        if trace is None:
            await super()._guarded(lease, work)
            return
        with spanning(self._tracer, "settlement", trace, {"holdfast.reservation_id": id_}) as span:
            self._walking[id_] = span.context
            try:
                await super()._guarded(lease, work)
            finally:
                self._walking.pop(id_, None)

    def note_outcomes(self, records: Sequence[Record]) -> None:
        super().note_outcomes(records)
        for record in records:
            if record.trace is not None and record.outcome is not None:
                self._record(record, record.trace)

    def _record(self, record: Record, trace: TraceContext) -> None:
        about, ended = _about(record), time_ns()
        above = self._walking.get(record.reservation_id)
        if above is None:
            # Settled in bulk: all of it was one transaction.
            whole = self._tracer.start("settlement", trace, about, at_ns=record.loaded_ns)
            whole.end(ended)
            above = whole.context
        if record.outcome == _SOLD:
            about = {**about, "holdfast.order_id": order_id_of(record.reservation_id)}
            self._tracer.start("order", above, about, at_ns=record.loaded_ns).end(ended)

    async def _call_provider(self, effect: Effect, record: Record) -> Event:
        parent = current_trace()
        if parent is None:
            return await super()._call_provider(effect, record)
        with spanning(self._tracer, f"payment {effect.value}", parent, _about(record), kind=Kind.CLIENT):
            return await super()._call_provider(effect, record)


def _about(record: Record) -> Attributes:
    provider = "unknown" if record.sale is None else record.sale.payment.value
    outcome = {} if record.outcome is None else {"holdfast.outcome": record.outcome}
    return {"holdfast.reservation_id": record.reservation_id, "holdfast.provider": provider, **outcome}
