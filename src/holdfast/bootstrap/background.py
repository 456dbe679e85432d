"""The background work of a server or a worker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.audit.archivist import Archivist
from holdfast.bootstrap.kafka import kafka_agents
from holdfast.bootstrap.payments import PaymentServices
from holdfast.bootstrap.pruner import Pruner, retentions_of
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
    *,
    enabled: bool,
) -> AsyncIterator[Agents]:
    agents = Agents()
    if enabled:
        sender = Sender(private=settings.webhook_private, checkpoint=lambda: watch.checkpoint)
        for agent in background_agents(settings, database, engine, payments, wakeup, sender):
            agents.start(agent)
    try:
        yield agents
    finally:
        await agents.stop()


def background_agents(
    settings: Settings, database: Database, engine: Engine, payments: PaymentServices, wakeup: Wakeup, sender: Sender
) -> list[Agent[Any]]:
    """The background work of a server or a worker."""
    deliverer = Deliverer(database, sender)
    agents: list[Agent[Any]] = [
        Expirer(database, engine.gate).agent(),
        Pruner(database, retentions_of(settings.keep_days, has_archive=settings.has_archive)).agent(),
        Archivist(settings.audit_directory, settings.audit_days).agent(),
        Linker(database).agent(),
        engine.reconciler.agent(),
        payments.settler.agent(),
        payments.refunder.agent(),
        payments.audit.agent(),
        payments.charge_lists.agent(),
        SaleLifecycle(database, loader_of(database, engine), inspector_of(engine)).agent(),
        LineAdvancer(database, engine.look_at, sealer_of(settings), wakeup).agent(),
        Relay(database, deliverer.wake).agent(),
        PoolUpdates(database, has_stream=settings.has_kafka).agent(),
        deliverer.agent(),
    ]
    purger = purger_of(settings)
    if settings.edge_url or purger.is_needed:
        agents.append(SaleWatcher(database, engine.look_at, purger, settings.edge_url).agent())
    agents += kafka_agents(settings, database, payments.purchases)
    return agents if engine.drainer is None else [*agents, engine.drainer.agent()]


def sealer_of(settings: Settings) -> Sealer:
    return Sealer(parse_signing_keys(settings.signing_key_text()))


def purger_of(settings: Settings) -> Purger:
    token = settings.edge_purge_token.get_secret_value()
    return Purger(directories_from(settings.edge_cache_directories), settings.edge_purge_url, token)


def loader_of(database: Database, engine: Engine) -> Loader:
    return Loader(database, engine.gate, inspector_of(engine), engine.catch_up)


def inspector_of(engine: Engine) -> Inspector:
    return Inspector(engine.reconciler, engine.catch_up)
