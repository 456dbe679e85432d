"""The only place that builds things: settings go in, a running house comes out."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

from msgspec import Struct
from sqlalchemy import make_url

from holdfast.audit.archivist import Archivist
from holdfast.audit.recorder import Recorder
from holdfast.domain.breaker import Breaker
from holdfast.domain.reservation import Reservation
from holdfast.domain.sale import PaymentKind
from holdfast.gate.batcher import Batcher
from holdfast.gate.carrier import Carrier
from holdfast.gate.functions import Functions
from holdfast.gate.link.durability import check_durability
from holdfast.gate.link.guarded import GuardedLink, guarded
from holdfast.gate.link.redis_link import RedisLink, open_link
from holdfast.gate.port import Gate
from holdfast.gate.redis import RedisGate
from holdfast.gate.redis_views import RedisViews
from holdfast.gate.restock import RedisRestocker
from holdfast.gate.shard_stock import ShardStock
from holdfast.gate.shards import ShardedGate
from holdfast.gate.splits import Splits
from holdfast.gate.sql import SqlGate
from holdfast.http.door import Door, build_door
from holdfast.http.identity import BuyerKeys, Doorkeeper
from holdfast.http.receipts import Receipts
from holdfast.ledger.database import Database, PostgresDatabase, open_database
from holdfast.ledger.lookout import LookAt, Lookout, look_into
from holdfast.ledger.migrate import migrate
from holdfast.ledger.queries import find_reservation
from holdfast.ledger.server_lock import ServerLock
from holdfast.payments.guarded import GuardedProvider
from holdfast.payments.providers import open_providers
from holdfast.room.bell import Bell
from holdfast.room.board import Board
from holdfast.room.desk import Desk
from holdfast.room.tokens import Tokens
from holdfast.room.usher import Usher
from holdfast.sales.catalogue import Catalogue
from holdfast.sales.inspection import Inspector
from holdfast.sales.loading import Loader
from holdfast.sales.office import Office
from holdfast.sales.steward import Steward
from holdfast.settings import Settings
from holdfast.settlement.agents import Agents
from holdfast.settlement.cashier import Cashier, build_cashier
from holdfast.settlement.drain import Drainer
from holdfast.settlement.expire import Expirer, Pruner
from holdfast.settlement.outbox.deliver import Deliverer
from holdfast.settlement.outbox.relay import Relay
from holdfast.settlement.outbox.sender import Sender
from holdfast.settlement.rebuild import Rebuilder
from holdfast.settlement.reconcile import Reconciler, RedisBooks
from holdfast.settlement.shard_keeper import ShardKeeper
from holdfast.signing import parse_signing_keys
from holdfast.teller import Teller

# SIGTERM promises an exit within 10 s, most of which belongs to requests under way (http/server.py).
DRAIN_S = 1.0


Find = Callable[[str], Awaitable[Reservation | None]]
CatchUp = Callable[[str | None], Awaitable[None]]


class Engine(Struct, frozen=True, eq=False):
    """Where stock is decided: what is asked for a decision, what shows how things stand, what keeps it true."""

    gate: Gate
    look_at: LookAt
    find: Find
    catch_up: CatchUp
    """Let the ledger hear of what was decided in a pool, or in all, before it is asked for a list."""
    reconciler: Reconciler
    drainer: Drainer | None = None
    link: RedisLink | None = None
    splits: Splits | None = None
    restocker: RedisRestocker | None = None
    """Where a pool can be split into shards."""


class House(Struct, frozen=True, eq=False):
    settings: Settings
    database: Database
    engine: Engine
    batcher: Batcher
    lookout: Lookout
    doorkeeper: Doorkeeper
    agents: Agents
    refusals: Recorder
    cashier: Cashier
    receipts: Receipts
    catalogue: Catalogue
    office: Office
    desk: Desk
    board: Board
    tokens: Tokens
    door: Door
    teller: Teller

    @property
    def may_lose_holds(self) -> bool:
        """Only Redis can lose one."""
        return self.engine.link is not None


@asynccontextmanager
async def open_ledger(settings: Settings) -> AsyncIterator[Database]:
    """The database, at the revision this version needs."""
    async with _open_database(settings) as database:
        await migrate(database)
        yield database


async def migrate_ledger(settings: Settings) -> tuple[str | None, str | None]:
    async with _open_database(settings) as database:
        return await migrate(database)


@asynccontextmanager
async def _open_database(settings: Settings) -> AsyncIterator[Database]:
    if settings.is_embedded:
        database_file(settings).parent.mkdir(parents=True, exist_ok=True)
    database = open_database(settings.database_url, connections=settings.database_connections)
    try:
        yield database
    finally:
        await database.close()


def database_file(settings: Settings) -> Path:
    return Path(make_url(settings.database_url).database or "")


@asynccontextmanager
async def open_house(settings: Settings, *, background: bool) -> AsyncIterator[House]:
    """Everything a server needs, running; on the way out, what was accepted is finished first."""
    bell = Bell()
    with _server_locks(settings, ["server", "worker"] if background else ["server"]):
        async with (
            open_ledger(settings) as database,
            open_engine(settings, database) as engine,
            open_cashier(settings, database, engine) as cashier,
            _background(settings, database, engine, cashier, bell, enabled=background) as agents,
            _recording(settings) as refusals,
        ):
            house = _build(settings, database, engine, agents, refusals, cashier, bell)
            agents.start("catalogue", house.catalogue.run())
            agents.start("board", house.board.run())
            agents.start("teller", house.teller.run())
            yield house
            # Servers have waited for their requests by now; what nobody waits for any more gets this long.
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.gather(house.batcher.drain(), house.desk.drain()), DRAIN_S)
            house.door.challenges.close()


@asynccontextmanager
async def open_worker(settings: Settings) -> AsyncIterator[Agents]:
    """The background work alone, beside servers that were started without it."""
    with _server_locks(settings, ["worker"]):
        async with (
            open_ledger(settings) as database,
            open_engine(settings, database) as engine,
            open_cashier(settings, database, engine) as cashier,
            _background(settings, database, engine, cashier, Bell(), enabled=True) as agents,
        ):
            agents.start("teller", Teller(database).run())
            yield agents


@asynccontextmanager
async def open_engine(settings: Settings, database: Database) -> AsyncIterator[Engine]:
    """The gate that the settings ask for, with everything that belongs to it."""
    if not settings.has_redis:
        yield Engine(SqlGate(database), look_into(database), _find_in(database), _is_up, Reconciler(database))
        return
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


@asynccontextmanager
async def open_cashier(settings: Settings, database: Database, engine: Engine) -> AsyncIterator[Cashier]:
    """Everything about money, with the providers that the settings name."""
    providers = {name: GuardedProvider(name, provider) for name, provider in open_providers(settings).items()}
    try:
        yield build_cashier(settings, database, engine.gate, providers, engine.restocker)
    finally:
        for provider in providers.values():
            await provider.close()


async def _is_up(_sku_id: str | None) -> None:
    """Where the database decides, it has heard of everything."""


def _find_in(database: Database) -> Find:
    async def find(reservation_id: str) -> Reservation | None:
        return await database.read(lambda c: find_reservation(c, reservation_id, database.now_ms(c)))

    return find


def _build(
    settings: Settings,
    database: Database,
    engine: Engine,
    agents: Agents,
    refusals: Recorder,
    cashier: Cashier,
    bell: Bell,
) -> House:
    batcher = Batcher(
        engine.gate,
        batch_max=settings.batch_max,
        line_max=settings.line_max,
        patience_s=settings.patience_ms / 1000,
        memory_s=settings.sold_out_memory_ms / 1000,
        line_of=None if engine.splits is None else engine.splits.line_of,
    )
    # Where keys are published a secret would never be used, and must not lie about.
    secret = "" if settings.buyer_jwks_url else settings.buyer_secret_text()
    buyer_keys = BuyerKeys(secret, settings.buyer_jwks_url)
    doorkeeper = Doorkeeper(database, settings.service_key_text(), buyer_keys)
    signing_keys = parse_signing_keys(settings.signing_key_text())
    receipts, tokens = Receipts(signing_keys), Tokens(signing_keys)
    desk = Desk(
        database,
        bell,
        batch_max=settings.batch_max,
        line_max=settings.line_max,
        patience_s=settings.patience_ms / 1000,
    )
    catalogue, office = Catalogue(database), build_office(settings, database, engine)
    lookout = Lookout(engine.look_at)
    door = build_door(settings, database, [*_breakers_of(database, engine.link), *cashier.breakers])
    return House(
        settings,
        database,
        engine,
        batcher,
        lookout,
        doorkeeper,
        agents,
        refusals,
        cashier,
        receipts,
        catalogue,
        office,
        desk,
        Board(database, batcher.slowness_ms, bell),
        tokens,
        door,
        Teller(database),
    )


def _breakers_of(database: Database, link: RedisLink | None) -> list[Breaker]:
    """A file on this machine has none, nor has a cluster."""
    return [store.breaker for store in (database, link) if isinstance(store, PostgresDatabase | GuardedLink)]


@asynccontextmanager
async def _recording(settings: Settings) -> AsyncIterator[Recorder]:
    recorder = Recorder(settings.audit_directory)
    recorder.start()
    try:
        yield recorder
    finally:
        await asyncio.to_thread(recorder.stop)


def build_office(settings: Settings, database: Database, engine: Engine) -> Office:
    missing = _missing_payment_settings(settings)
    return Office(database, engine.gate, _loader(database, engine), missing, engine.restocker)


def _missing_payment_settings(settings: Settings) -> dict[PaymentKind, str]:
    """The payments that cannot be taken here, and what it would need."""
    needed = {
        PaymentKind.SANDBOX: (settings.payment_sandbox_url, "HOLDFAST_PAYMENT_SANDBOX_URL"),
        PaymentKind.STRIPE: (settings.stripe_api_key.get_secret_value(), "HOLDFAST_STRIPE_API_KEY"),
    }
    return {kind: name for kind, (value, name) in needed.items() if not value}


def _loader(database: Database, engine: Engine) -> Loader:
    return Loader(database, engine.gate, _inspector(engine), engine.catch_up)


def _inspector(engine: Engine) -> Inspector:
    return Inspector(engine.reconciler, engine.catch_up)


@contextmanager
def _server_locks(settings: Settings, roles: list[str]) -> Iterator[None]:
    with ExitStack() as held:
        for role in roles if settings.is_embedded else []:
            held.callback(ServerLock(database_file(settings), role).acquire().release)
        yield


@asynccontextmanager
async def _background(
    settings: Settings, database: Database, engine: Engine, cashier: Cashier, bell: Bell, *, enabled: bool
) -> AsyncIterator[Agents]:
    agents = Agents()
    if enabled:
        agents.start("expirer", Expirer(database, engine.gate).run())
        agents.start("pruner", Pruner(database).run())
        agents.start("archivist", Archivist(settings.audit_directory, settings.audit_days).run())
        agents.start("reconciler", engine.reconciler.run())
        agents.start("settler", cashier.settler.run())
        agents.start("refunder", cashier.refunder.run())
        agents.start("payment_audit", cashier.audit.run())
        agents.start("steward", Steward(database, _loader(database, engine), _inspector(engine)).run())
        agents.start("usher", Usher(database, engine.look_at, bell).run())
        if engine.drainer is not None:
            agents.start("drainer", engine.drainer.run())
        _start_outbox(agents, settings, database)
    try:
        yield agents
    finally:
        await agents.stop()


def _start_outbox(agents: Agents, settings: Settings, database: Database) -> None:
    deliverer = Deliverer(database, Sender(private=settings.calls_private_webhooks))
    agents.start("relay", Relay(database, deliverer.wake).run())
    agents.start("deliverer", deliverer.run())
