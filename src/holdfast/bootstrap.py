"""The only place that builds things: settings go in, a running house comes out."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial

from msgspec import Struct

from holdfast.audit.archivist import Archivist
from holdfast.audit.recorder import Recorder
from holdfast.domain.breaker import Breaker, Guarded
from holdfast.domain.sale import PaymentKind
from holdfast.engines import Engine, database_file, open_engine, open_ledger
from holdfast.gate.batcher import Batcher, SplitBatcher
from holdfast.gate.link.port import RedisLink
from holdfast.http.door import Door, build_door
from holdfast.http.identity import BuyerKeys, Doorkeeper
from holdfast.http.receipts import Receipts
from holdfast.ledger.database import Database
from holdfast.ledger.lookout import Lookout
from holdfast.ledger.queries import PoolView
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
from holdfast.settlement.expire import Expirer, Pruner
from holdfast.settlement.outbox.deliver import Deliverer
from holdfast.settlement.outbox.relay import Relay
from holdfast.settlement.outbox.sender import Sender
from holdfast.signing import parse_signing_keys
from holdfast.teller import Teller

# SIGTERM promises an exit within 10 s, most of which belongs to requests under way (http/server.py).
DRAIN_S = 1.0


class House(Struct, frozen=True, eq=False):
    settings: Settings
    database: Database
    engine: Engine
    batcher: Batcher
    lookout: Lookout[PoolView]
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
async def open_cashier(settings: Settings, database: Database, engine: Engine) -> AsyncIterator[Cashier]:
    """Everything about money, with the providers that the settings name."""
    providers = {name: GuardedProvider(name, provider) for name, provider in open_providers(settings).items()}
    try:
        yield build_cashier(settings, database, engine.gate, providers, engine.restocker)
    finally:
        for provider in providers.values():
            await provider.close()


def _build(
    settings: Settings,
    database: Database,
    engine: Engine,
    agents: Agents,
    refusals: Recorder,
    cashier: Cashier,
    bell: Bell,
) -> House:
    kind = Batcher if engine.splits is None else partial(SplitBatcher, engine.splits.line_of)
    batcher = kind(
        engine.gate,
        batch_max=settings.batch_max,
        line_max=settings.line_max,
        patience_s=settings.patience_ms / 1000,
        memory_s=settings.sold_out_memory_ms / 1000,
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
    stores: tuple[object, ...] = (database, link)
    return [store.breaker for store in stores if isinstance(store, Guarded)]


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
