"""Builds the batcher of a server."""

from collections.abc import Callable
from functools import partial

from holdfast.bootstrap.tracing import Tracing
from holdfast.gate.batcher import Batcher, SplitBatcher
from holdfast.gate.confirmed_refusals import ConfirmedRefusals
from holdfast.gate.engine import Engine
from holdfast.gate.traced import TracedBatcher, TracedSplitBatcher
from holdfast.gate.winners import Winners
from holdfast.ledger.engine.database import Database
from holdfast.settings import Settings


def build_batcher(settings: Settings, database: Database, engine: Engine, tracing: Tracing | None) -> Batcher:
    return _kind(database, engine, tracing)(
        engine.gate,
        batch_max=settings.batch_max,
        queue_max=settings.queue_max,
        timeout_s=settings.queue_timeout_ms / 1000,
        cache_s=settings.sold_out_cache_ms / 1000,
        winners=_winners(settings, database),
        confirmed=_confirmed_refusals(settings, database, engine),
    )


def _kind(database: Database, engine: Engine, tracing: Tracing | None) -> Callable[..., Batcher]:
    line_of = None if engine.splits is None else engine.splits.line_of
    if tracing is None:
        return Batcher if line_of is None else partial(SplitBatcher, line_of)
    of_gate = tracing.of_gate(engine, database)
    return partial(TracedBatcher, of_gate) if line_of is None else partial(TracedSplitBatcher, of_gate, line_of)


def _winners(settings: Settings, database: Database) -> Winners | None:
    """Only for a process that no other grants beside: on SQLite the lock of the server makes sure of that."""
    is_alone = settings.is_embedded and not settings.has_redis
    return Winners(database, partial(_term_of, database)) if is_alone else None


def _confirmed_refusals(settings: Settings, database: Database, engine: Engine) -> ConfirmedRefusals | None:
    if engine.owner_feed is None:
        return None
    return ConfirmedRefusals(engine.owner_feed, partial(_term_of, database), settings.sold_out_cache_ms / 1000)


def _term_of(database: Database) -> int | None:
    guard = database.guard
    return guard.recoveries if guard.finding is None else None
