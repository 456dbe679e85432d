"""The background work of a server or a worker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from holdfast.audit.archivist import Archivist
from holdfast.audit.sharing import share_finished
from holdfast.bootstrap.kafka import kafka_agents
from holdfast.bootstrap.messages import message_agents
from holdfast.bootstrap.payments import PaymentServices
from holdfast.bootstrap.pruner import Pruner, retentions_of
from holdfast.bootstrap.tracing import Tracing, sender_of
from holdfast.caches.purging import Purger, directories_from
from holdfast.caches.sale_watcher import SaleWatcher
from holdfast.gate.engine import Engine
from holdfast.gate.expirer import Expirer
from holdfast.ledger.chain.linker import Linker
from holdfast.ledger.engine.database import Database
from holdfast.ledger.mark.watch import LedgerWatch
from holdfast.room.line_advancer import LineAdvancer
from holdfast.room.wakeup import Wakeup
from holdfast.runtime.agent import Agent, Agents
from holdfast.runtime.sealing import Sealer
from holdfast.runtime.signing import parse_signing_keys
from holdfast.sales.inspection import Inspector
from holdfast.sales.lifecycle import SaleLifecycle
from holdfast.sales.loading import Loader
from holdfast.settings import Settings
from holdfast.webhooks.deliverer import Deliverer
from holdfast.webhooks.pool_updates import PoolUpdates
from holdfast.webhooks.relay import Relay
from holdfast.webhooks.sender import Sender


@asynccontextmanager
async def run_background(
    settings: Settings,
    database: Database,
    engine: Engine,
    watch: LedgerWatch,
    payments: PaymentServices,
    wakeup: Wakeup,
    tracing: Tracing | None,
    *,
    enabled: bool,
) -> AsyncIterator[Agents]:
    agents = Agents()
    if enabled:
        sender = sender_of(settings, tracing, lambda: watch.checkpoint)
        for agent in background_agents(settings, database, engine, payments, wakeup, sender, tracing):
            agents.start(agent)
    try:
        yield agents
    finally:
        await agents.stop()


def background_agents(
    settings: Settings,
    database: Database,
    engine: Engine,
    payments: PaymentServices,
    wakeup: Wakeup,
    sender: Sender,
    tracing: Tracing | None = None,
) -> list[Agent[Any]]:
    """The background work of a server or a worker."""
    deliverer = Deliverer(database, sender)
    find_traces = None if tracing is None else tracing.find_traces
    agents: list[Agent[Any]] = [
        Expirer(database, engine.gate).agent(),
        Pruner(
            database, retentions_of(settings.keep_days, settings.audit_days, has_archive=settings.has_archive)
        ).agent(),
        _archivist(settings, database).agent(),
        Linker(database).agent(),
        engine.reconciler.agent(),
        payments.settler.agent(),
        payments.refunder.agent(),
        payments.audit.agent(),
        payments.charge_lists.agent(),
        SaleLifecycle(database, loader_of(database, engine), inspector_of(engine)).agent(),
        LineAdvancer(database, engine.look_at, sealer_of(settings), wakeup).agent(),
        Relay(database, deliverer.wake, find_traces).agent(),
        PoolUpdates(database, has_stream=settings.has_kafka).agent(),
        deliverer.agent(),
    ]
    purger = purger_of(settings)
    if settings.edge_url or purger.is_needed:
        agents.append(SaleWatcher(database, engine.look_at, purger, settings.edge_url).agent())
    agents += kafka_agents(settings, database, payments.purchases, find_traces)
    agents += message_agents(settings, database)
    return agents if engine.drainer is None else [*agents, engine.drainer.agent()]


def _archivist(settings: Settings, database: Database) -> Archivist:
    """All processes on a file are on one machine, and share a directory."""
    share = None if settings.is_embedded else partial(share_finished, database)
    return Archivist(settings.audit_directory, settings.audit_days, share)


def sealer_of(settings: Settings) -> Sealer:
    return Sealer(parse_signing_keys(settings.signing_key_text()))


def purger_of(settings: Settings) -> Purger:
    token = settings.edge_purge_token.get_secret_value()
    return Purger(directories_from(settings.edge_cache_directories), settings.edge_purge_url, token)


def loader_of(database: Database, engine: Engine) -> Loader:
    return Loader(database, engine.gate, inspector_of(engine), engine.catch_up, engine.reload_pool)


def inspector_of(engine: Engine) -> Inspector:
    return Inspector(engine.reconciler, engine.catch_up)
