"""Builds the engine whose gate is Redis."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from holdfast.gate.engine import Engine
from holdfast.gate.reconciler import Reconciler
from holdfast.gate.redis.audit import RedisAudit
from holdfast.gate.redis.claimed_sales import ClaimedSales
from holdfast.gate.redis.client import RedisClient, open_client
from holdfast.gate.redis.drainer import STORED_AT_ONCE, Drainer
from holdfast.gate.redis.evidence import RedisEvidence
from holdfast.gate.redis.gate import RedisGate
from holdfast.gate.redis.journal_lag import JournalLag
from holdfast.gate.redis.link.durability import DurabilityWatch, check_durability
from holdfast.gate.redis.owners import RedisOwners
from holdfast.gate.redis.rebuilder import Rebuilder
from holdfast.gate.redis.shards.audit import ShardAudit
from holdfast.gate.redis.shards.gate import ShardedGate
from holdfast.gate.redis.shards.restock import RedisRestocker
from holdfast.gate.redis.shards.stock import ShardStock
from holdfast.gate.redis.shards.transfers import ShardTransfers
from holdfast.gate.redis.splits import Splits
from holdfast.gate.redis.turns import FAILED_AT_ONCE
from holdfast.gate.redis.views import RedisViews
from holdfast.ledger.engine.database import Database


@asynccontextmanager
async def open_redis_engine(
    database: Database,
    *,
    url: str,
    timeout_s: float,
    fsync: str,
    replicas_min: int,
    journal_max: int,
    connections: int,
) -> AsyncIterator[Engine]:
    """`connections`: the size of the database's pool, half of which the drainer uses."""
    client = open_client(url, timeout_s=timeout_s)
    at_once = max(connections // 2 - FAILED_AT_ONCE, 1)
    try:
        yield await redis_engine(
            database, client, fsync=fsync, replicas_min=replicas_min, journal_max=journal_max, drained_at_once=at_once
        )
    finally:
        await client.close()


async def redis_engine(
    database: Database,
    client: RedisClient,
    *,
    fsync: str,
    replicas_min: int,
    journal_max: int,
    drained_at_once: int = STORED_AT_ONCE,
) -> Engine:
    await check_durability(client, fsync=fsync, replicas_min=replicas_min)
    await client.load_library()
    watch = DurabilityWatch(client, fsync=fsync)
    # The baseline for later comparisons.
    await watch.finding()
    drainer = Drainer(database, client, at_once=drained_at_once)
    return _redis_engine(database, client, drainer, watch, replicas_min, journal_max)


def _redis_engine(
    database: Database,
    client: RedisClient,
    drainer: Drainer,
    watch: DurabilityWatch,
    replicas_min: int,
    journal_max: int,
) -> Engine:
    splits = Splits(database)
    views = RedisViews(client, database, splits)
    rebuilder = Rebuilder(database, client, drainer)

    def report_inconsistency(sku_id: str, reason: str) -> None:
        reconciler.report_inconsistency(sku_id, reason)

    gate = RedisGate(
        client, database, rebuilder, report_inconsistency, replicas_min=replicas_min, journal_max=journal_max
    )
    transfers = ShardTransfers(database, gate, rebuilder)
    stock = ShardStock(database, gate, views, transfers)
    shards = ShardAudit(database, gate, splits, transfers, stock)
    reconciler = Reconciler(database, RedisAudit(database, client, views, rebuilder, shards, watch))
    return Engine(
        ShardedGate(gate, splits, views, transfers, stock),
        views.look_at,
        views.find,
        drainer.catch_up,
        reconciler,
        drainer,
        client,
        splits,
        RedisRestocker(database, splits, transfers),
        catch_up_sales=ClaimedSales(database, drainer).catch_up,
        beat=partial(client.beat, replicas_min=replicas_min),
        evidence=RedisEvidence(client, database),
        reload_pool=rebuilder.reload,
        journal_lag=JournalLag(database, client).by_pool,
        owner_feed=RedisOwners(client, database) if database.dialect_name == "postgresql" else None,
    )
