"""Redis as the gate, wired."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.engines import Engine
from holdfast.gate.carrier import Carrier
from holdfast.gate.functions import Functions
from holdfast.gate.link.durability import check_durability
from holdfast.gate.link.guarded import guarded
from holdfast.gate.link.redis_link import open_link
from holdfast.gate.redis import RedisGate
from holdfast.gate.redis_views import RedisViews
from holdfast.gate.restock import RedisRestocker
from holdfast.gate.shard_stock import ShardStock
from holdfast.gate.shards import ShardedGate
from holdfast.gate.splits import Splits
from holdfast.ledger.database import Database
from holdfast.settings import Settings
from holdfast.settlement.drain import Drainer
from holdfast.settlement.rebuild import Rebuilder
from holdfast.settlement.reconcile import Reconciler, RedisBooks
from holdfast.settlement.shard_keeper import ShardKeeper


@asynccontextmanager
async def open_redis_engine(settings: Settings, database: Database) -> AsyncIterator[Engine]:
    link = guarded(open_link(settings.redis_url, timeout_s=settings.redis_timeout_ms / 1000))
    try:
        await check_durability(link, fsync=settings.redis_fsync, replicas_min=settings.redis_replicas_min)
        functions = Functions(link)
        await functions.load()
        yield _redis_engine(settings, database, functions)
    finally:
        await link.close()


def _redis_engine(settings: Settings, database: Database, functions: Functions) -> Engine:
    splits = Splits(database)
    views = RedisViews(functions, database, splits)
    drainer = Drainer(database, functions.link)
    rebuilder = Rebuilder(database, functions, drainer)

    def suspect(sku_id: str, why: str) -> None:
        reconciler.suspect(sku_id, why)

    each = RedisGate(functions, database, rebuilder, suspect, replicas_min=settings.redis_replicas_min)
    carrier = Carrier(database, each, rebuilder)
    stock = ShardStock(database, each, views, carrier)
    keeper = ShardKeeper(database, each, splits, carrier, stock)
    reconciler = Reconciler(database, RedisBooks(functions, views, rebuilder, keeper))
    return Engine(
        ShardedGate(each, splits, views, carrier, stock),
        views.look_at,
        views.find,
        drainer.catch_up,
        reconciler,
        drainer,
        functions.link,
        splits,
        RedisRestocker(database, splits, carrier),
    )
