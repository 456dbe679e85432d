"""Opens tracing if it is on; otherwise OpenTelemetry is not imported, and no class here is used."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from time import time_ns

from msgspec import Struct

from holdfast.errors import SettingsError
from holdfast.gate.engine import Engine, JournalObserver
from holdfast.gate.traced import GateTracing
from holdfast.ledger.chain.checkpoint import Checkpoint
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.event_facts import FindTraces
from holdfast.ledger.events.traces import TraceStore
from holdfast.ledger.stock.journal import Entry
from holdfast.runtime.tracing.context import stored_context
from holdfast.runtime.tracing.tracer import Attributes, Tracer
from holdfast.settings import Settings
from holdfast.webhooks.sender import Sender
from holdfast.webhooks.traced import TracedSender

# The server has to be gone within ten seconds of SIGTERM.
DRAIN_S = 0.5


class Tracing(Struct, frozen=True, eq=False):
    tracer: Tracer
    store: TraceStore
    # Of requests whose caller has not decided it.
    ratio: float

    @property
    def find_traces(self) -> FindTraces:
        return self.store.find

    def of_gate(self, engine: Engine, database: Database) -> GateTracing:
        return GateTracing(self.tracer, self.store, database.dialect_name if engine.link is None else "redis")


@asynccontextmanager
async def open_tracing(settings: Settings, database: Database, engine: Engine) -> AsyncIterator[Tracing | None]:
    if not settings.otel_endpoint:
        yield None
        return
    try:
        from holdfast.runtime.tracing.otel import OtelTracer  # noqa: PLC0415 - importing it takes a quarter of a second
    except ImportError as exc:
        raise SettingsError("HOLDFAST_OTEL_ENDPOINT needs OpenTelemetry: pip install 'holdfast[otel]'") from exc
    tracer, store = OtelTracer(settings.otel_endpoint), TraceStore(database)
    if engine.drainer is not None:
        engine.drainer.on_stored = journal_observer(database, tracer, store)
    try:
        yield Tracing(tracer, store, settings.otel_sample_percent / 100)
    finally:
        with suppress(TimeoutError):
            await asyncio.wait_for(store.drain(), DRAIN_S)
        await asyncio.to_thread(tracer.stop)


def sender_of(settings: Settings, tracing: Tracing | None, checkpoint: Callable[[], Checkpoint | None]) -> Sender:
    build = Sender if tracing is None else partial(TracedSender, tracing.tracer)
    return build(private=settings.webhook_private, checkpoint=checkpoint)


def journal_observer(database: Database, tracer: Tracer, store: TraceStore) -> JournalObserver:
    """Spans of journal entries that were copied into the ledger: one for each traced reservation in them."""

    async def observe(sku_id: str, stored: Sequence[Entry], started_ns: int) -> None:
        ids = {r.reservation_id for entry in stored for r in (*entry.changes.created, *entry.changes.moved)}
        ended, found = time_ns(), await database.read(partial(store.find, ids=ids))
        for id_, traceparent in found.items():
            about: Attributes = {
                "holdfast.pool": sku_id,
                "holdfast.entries": len(stored),
                "holdfast.reservation_id": id_,
            }
            tracer.start("journal", stored_context(traceparent), about, at_ns=started_ns).end(ended)

    return observe
