"""The batcher of a server that traces.

A traced request has a span for its time in the queue. A batch with traced commands has one span, in the trace of the
first of them, with links to all. The others have a span in their own trace that links to it, so each trace is complete.
Untraced commands only cost one look-up of a context variable.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from time import time_ns
from typing import Any

from msgspec import Struct

from holdfast.domain.stock.command import Command, Extend, Move, Reserve, Verdict
from holdfast.gate.batcher import Batcher, SplitBatcher
from holdfast.gate.port import Gate
from holdfast.ledger.events.traces import TraceStore
from holdfast.runtime.tracing.context import TraceContext, current_trace
from holdfast.runtime.tracing.tracer import Attributes, Kind, Span, Tracer, spanning


class GateTracing(Struct, frozen=True, eq=False):
    tracer: Tracer
    store: TraceStore
    # Of the engine: sqlite, postgresql or redis.
    engine: str


class _Queued(Struct, eq=False):
    request: TraceContext
    waiting: Span


class TracedGate:
    def __init__(self, gate: Gate, tracing: GateTracing) -> None:
        self._gate, self._tracer = gate, tracing.tracer
        self._name, self._about = f"gate {tracing.engine}", {"db.system.name": tracing.engine}

    async def apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        parent = current_trace()
        if parent is None:
            return await self._gate.apply(sku_id, commands)
        with spanning(self._tracer, self._name, parent, self._about, kind=Kind.CLIENT):
            return await self._gate.apply(sku_id, commands)


class _Traced(Batcher):
    _tracing: GateTracing
    # By the identity of the command, which lives as long as its future is open.
    _queued: dict[int, _Queued]

    def submit(self, key: str, item: Command) -> asyncio.Future[Verdict]:
        request = current_trace()
        return super().submit(key, item) if request is None else self._submit_traced(request, key, item)

    def _submit_traced(self, request: TraceContext, key: str, item: Command) -> asyncio.Future[Verdict]:
        if isinstance(item, Reserve | Move | Extend):
            # First, so that everything caused by the command finds it.
            self._tracing.store.note(item.reservation_id, request)
        submitted = super().submit(key, item)
        self._queued[id(item)] = _Queued(request, self._tracing.tracer.start("queue", request))
        submitted.add_done_callback(partial(self._leave, id(item)))
        return submitted

    def _leave(self, item: int, _answered: "asyncio.Future[Verdict]") -> None:
        self._queued.pop(item)

    async def _decide(self, key: str, commands: Sequence[Command], /) -> Sequence[Verdict]:
        if not self._queued:
            return await super()._decide(key, commands)
        found = [self._queued[id(command)] for command in commands if id(command) in self._queued]
        if not found:
            return await super()._decide(key, commands)
        return await self._decide_traced(key, commands, found)

    async def _decide_traced(self, key: str, commands: Sequence[Command], found: list[_Queued]) -> Sequence[Verdict]:
        about: Attributes = {"holdfast.pool": key, "holdfast.batch.size": len(commands)}
        requests, started, tracer = [one.request for one in found], time_ns(), self._tracing.tracer
        for one in found:
            one.waiting.end(started)
        with spanning(tracer, "batch", requests[0], about, links=requests) as batch:
            verdicts = await super()._decide(key, commands)
        for other in requests[1:]:
            tracer.start("batch", other, about, links=[batch.context], at_ns=started).end()
        return verdicts


class TracedBatcher(_Traced):
    def __init__(self, tracing: GateTracing, gate: Gate, **limits: Any) -> None:
        self._tracing, self._queued = tracing, {}
        super().__init__(TracedGate(gate, tracing), **limits)


class TracedSplitBatcher(_Traced, SplitBatcher):
    def __init__(self, tracing: GateTracing, key_of: Callable[[str, Command], str], gate: Gate, **limits: Any) -> None:
        self._tracing, self._queued = tracing, {}
        SplitBatcher.__init__(self, key_of, TracedGate(gate, tracing), **limits)
