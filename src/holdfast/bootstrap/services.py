"""Builds the services of a server or a worker from the settings, and starts their background tasks."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.access.identity import Authenticator
from holdfast.access.oidc import Oidc
from holdfast.access.operators import Operators
from holdfast.access.receipts import Receipts
from holdfast.audit.recorder import Recorder
from holdfast.audit.sharing import Sharer
from holdfast.audit.traced import TracedRecorder
from holdfast.bootstrap.background import loader_of, run_background, sealer_of
from holdfast.bootstrap.batcher import build_batcher
from holdfast.bootstrap.control import Control, own_control
from holdfast.bootstrap.heartbeat import GateHeartbeat, LedgerHeartbeat, build_readiness
from holdfast.bootstrap.lag import LagGuard, LagReader
from holdfast.bootstrap.marks import watch_ledger
from holdfast.bootstrap.payments import (
    PaymentServices,
    mark_of_charges,
    missing_payment_settings,
    open_payment_services,
)
from holdfast.bootstrap.stores import database_file, open_engine, open_ledger, open_reads
from holdfast.bootstrap.tracing import Tracing, open_tracing
from holdfast.checkout.address_limits import AddressLimits
from holdfast.checkout.allowances import Allowances
from holdfast.checkout.attempt_limits import AttemptLimits
from holdfast.checkout.holds import Holds
from holdfast.checkout.mine import FindMine
from holdfast.checkout.passes import Passes
from holdfast.checkout.payment_methods import PaymentMethods
from holdfast.checkout.payment_steps import PaymentSteps
from holdfast.checkout.purchase import PurchaseUnits
from holdfast.checkout.quotes import Quotes
from holdfast.checkout.replays import Replays
from holdfast.checkout.reserve import DropReserves, ReserveUnits
from holdfast.errors import Cause
from holdfast.gate.batcher import Batcher
from holdfast.gate.engine import Engine, GateLink
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.server_lock import ServerLock
from holdfast.ledger.events.watcher import Watcher
from holdfast.ledger.replicas.reads import LedgerReads
from holdfast.ledger.sales.counter_flusher import CounterFlusher
from holdfast.ledger.stock.queries import PoolView
from holdfast.ledger.stock.shared_reads import SharedReads, find_in, look_into
from holdfast.room.arrival_stager import ArrivalStager
from holdfast.room.captcha import CaptchaVerifier
from holdfast.room.challenge import Challenges, secrets_from
from holdfast.room.devices import DeviceAccounts
from holdfast.room.join_queue import JoinQueue
from holdfast.room.snapshot import RoomSnapshot
from holdfast.room.tokens import Tokens
from holdfast.room.wakeup import Wakeup
from holdfast.runtime.agent import Agents
from holdfast.runtime.breaker import Breaker, Guarded
from holdfast.runtime.readiness import Check, Readiness
from holdfast.runtime.signing import parse_signing_keys
from holdfast.sales.catalogue import Catalogue
from holdfast.sales.drop_operations import DropOperations
from holdfast.sales.operations import SaleOperations
from holdfast.settings import Settings
from holdfast.streams.reservation_events import ReservationEvents

if TYPE_CHECKING:
    from holdfast.room.risk import RiskHook

# The server exits within 10 s of SIGTERM. Most of that time is for requests in flight (http/server).
DRAIN_S = 1.0


class Services(Struct, frozen=True, eq=False):
    settings: Settings
    database: Database
    engine: Engine
    batcher: Batcher
    pool_reads: SharedReads[PoolView]
    authenticator: Authenticator
    operators: Operators
    agents: Agents
    refusals: Recorder
    payments: PaymentServices
    receipts: Receipts
    catalogue: Catalogue
    sale_operations: SaleOperations
    drop_operations: DropOperations
    join_queue: JoinQueue
    arrival_stager: ArrivalStager
    room_snapshot: RoomSnapshot
    tokens: Tokens
    challenges: Challenges
    devices: DeviceAccounts
    risk: "RiskHook | None"
    counter_flusher: CounterFlusher
    reserve_units: ReserveUnits
    purchase_units: PurchaseUnits
    holds: Holds
    find_mine: FindMine
    payment_steps: PaymentSteps
    quotes: Quotes
    reservation_events: ReservationEvents
    readiness: Readiness
    lag: LagReader
    lag_guard: LagGuard
    reads: LedgerReads
    control: Control
    # None if traces are off.
    tracing: Tracing | None = None

    @property
    def open_breakers(self) -> list[str]:
        """Dependencies that do not answer at the moment. Of payment providers, the processes that settle know."""
        hooks = [hook.breaker for hook in (self.risk, self.challenges.captcha) if hook is not None]
        others = [*self.payments.breakers, *hooks]
        failed = {name for name, check in self.readiness.checks().items() if not check.ok}
        return [*self._open_stores, *[one.name for one in others if not one.is_closed or one.name in failed]]

    @property
    def _open_stores(self) -> list[str]:
        return [breaker.name for breaker in _breakers_of(self.database, self.engine.link) if not breaker.is_closed]

    @property
    def checks(self) -> dict[str, Check]:
        """A store whose breaker is open is known to be down before its next heartbeat fails."""
        for store in self._open_stores:
            self.readiness.failed(store, Cause.STORE_UNREACHABLE)
        return self.readiness.checks() | {"clock": self._clock_check()} | self._replica_checks()

    def _replica_checks(self) -> dict[str, Check]:
        """A replica that is left out stops nothing: the primary is read instead."""
        return {f"replica {one.name}": Check(one.reason is None, one.reason, 0) for one in self.reads.standings}

    def _clock_check(self) -> Check:
        """No decision depends on a store's clock that was set, so sales continue (`runtime/engine_clock.py`)."""
        findings = {report.finding for report in self.engine.reconciler.reports.values()}
        is_stepped = self.database.clock_step_ms() != 0 or "clock_stepped" in findings
        return Check(not is_stepped, "clock_stepped" if is_stepped else None, 0)


@asynccontextmanager
async def open_services(
    settings: Settings, *, background: bool, control: Control | None = None
) -> AsyncIterator[Services]:
    """Everything a server needs, running. On exit, accepted work is finished first. `control` is given to a cell."""
    wakeup = Wakeup()
    with _server_locks(settings, ["server", "worker"] if background else ["server"]):
        async with (
            open_ledger(settings) as database,
            open_engine(settings, database) as engine,
            open_reads(settings, database) as reads,
            watch_ledger(settings, database, engine, partial(mark_of_charges, settings, database)) as watch,
            open_tracing(settings, database, engine) as tracing,
            open_payment_services(settings, database, engine, tracing) as payments,
            run_background(settings, database, engine, watch, payments, wakeup, tracing, enabled=background) as agents,
            _recording(settings, tracing) as refusals,
        ):
            readiness = await _start_heartbeats(settings, database, engine, agents, payments.breakers)
            parts = (agents, refusals, payments, wakeup, readiness, reads, control, tracing)
            services = build_services(settings, database, engine, *parts)
            if reads.standings:
                agents.start(reads.agent())
            agents.start(services.catalogue.agent())
            if control is None:
                await services.control.revoked_buyers.refresh()
                agents.start(services.control.revoked_buyers.agent())
            agents.start(services.room_snapshot.agent())
            agents.start(services.arrival_stager.agent())
            agents.start(services.counter_flusher.agent())
            agents.start(services.lag_guard.agent())
            if not settings.is_embedded:
                agents.start(Sharer(database, refusals).agent())
            yield services
            # Servers have finished their requests by now. Work without a waiting client gets this long.
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.gather(services.batcher.drain(), services.join_queue.drain()), DRAIN_S)
            services.challenges.close()
            for hook in (services.risk, services.challenges.captcha):
                if hook is not None:
                    await hook.close()


@asynccontextmanager
async def open_worker(settings: Settings) -> AsyncIterator[Agents]:
    """Only the background tasks, for servers that were started without them."""
    with _server_locks(settings, ["worker"]):
        async with (
            open_ledger(settings) as database,
            open_engine(settings, database) as engine,
            watch_ledger(settings, database, engine, partial(mark_of_charges, settings, database)) as watch,
            open_tracing(settings, database, engine) as tracing,
            open_payment_services(settings, database, engine, tracing) as payments,
            run_background(settings, database, engine, watch, payments, Wakeup(), tracing, enabled=True) as agents,
        ):
            agents.start(CounterFlusher(database).agent())
            await _start_heartbeats(settings, database, engine, agents, payments.breakers)
            yield agents


async def _start_heartbeats(
    settings: Settings, database: Database, engine: Engine, agents: Agents, providers: Sequence[Breaker]
) -> Readiness:
    """The first beats are over when this returns, so that a server is ready as soon as it serves."""
    has = {"has_redis": settings.has_redis, "has_kafka": settings.has_kafka, "has_intents": settings.has_intents}
    readiness = build_readiness(database.dialect_name, **has)
    heartbeats: list[LedgerHeartbeat | GateHeartbeat] = [LedgerHeartbeat(database, agents, readiness, providers, **has)]
    if engine.beat is not None:
        heartbeats.append(GateHeartbeat(engine.beat, readiness))
    await asyncio.gather(*[heartbeat.pass_once() for heartbeat in heartbeats])
    for heartbeat in heartbeats:
        agents.start(heartbeat.agent())
    return readiness


def build_services(
    settings: Settings,
    database: Database,
    engine: Engine,
    agents: Agents,
    refusals: Recorder,
    payments: PaymentServices,
    wakeup: Wakeup,
    readiness: Readiness,
    reads: LedgerReads | None = None,
    control: Control | None = None,
    tracing: Tracing | None = None,
) -> Services:
    reads = LedgerReads(database) if reads is None else reads
    batcher = build_batcher(settings, database, engine, tracing)
    control = control or own_control(settings, database)
    authenticator = control.authenticator
    signing_keys = parse_signing_keys(settings.signing_key_text())
    receipts, tokens = Receipts(signing_keys), Tokens(signing_keys)
    join_queue = JoinQueue(
        database,
        wakeup,
        batch_max=settings.batch_max,
        queue_max=settings.queue_max,
        timeout_s=settings.queue_timeout_ms / 1000,
    )
    catalogue, sale_operations = Catalogue(database), build_sale_operations(settings, database, engine)
    # Where the database is the gate, replicas have what is asked about pools and reservations.
    is_gate = engine.link is None and bool(reads.standings)
    pool_reads = SharedReads(look_into(reads) if is_gate else engine.look_at)
    find = SharedReads(find_in(reads)).look if is_gate else engine.find
    allowances = Allowances(database, engine.catch_up)
    quotes, limits = Quotes(database, payments.rates), (AddressLimits(database), AttemptLimits(database), allowances)
    methods, nudge = PaymentMethods(database), payments.settler.nudge
    challenges = Challenges(
        database,
        secrets_from([key.secret for key in signing_keys]),
        _captcha(settings),
        is_captcha_required=settings.captcha_required,
    )
    room_snapshot = RoomSnapshot(database, batcher.slowness_ms, wakeup)
    lag = LagReader(database, engine, has_kafka=settings.has_kafka, has_intents=settings.has_intents)
    lag_guard = LagGuard(lag, settings.shed_lag_max)
    passes, replays = Passes(tokens, room_snapshot, catalogue.now_ms), Replays(database, engine.catch_up)
    return Services(
        settings,
        database,
        engine,
        batcher,
        pool_reads,
        authenticator,
        Operators(database, authenticator.sessions, _oidc(settings)),
        agents,
        refusals,
        payments,
        receipts,
        catalogue,
        sale_operations,
        DropOperations(database, sealer_of(settings)),
        join_queue,
        ArrivalStager(database, wakeup),
        room_snapshot,
        tokens,
        challenges,
        DeviceAccounts(database, signing_keys[-1].secret, settings.accounts_per_device),
        _risk_hook(settings),
        CounterFlusher(database),
        ReserveUnits(batcher, DropReserves(batcher, catalogue, allowances, replays)),
        PurchaseUnits(catalogue, batcher, passes, challenges, replays, methods, *limits, quotes, join_queue, nudge),
        Holds(find, catalogue, batcher, methods, nudge),
        FindMine(reads, catalogue, engine.catch_up),
        PaymentSteps(database, payments.providers, payments.audit.hint),
        quotes,
        ReservationEvents(Watcher(database), engine.catch_up),
        readiness,
        lag,
        lag_guard,
        reads,
        control,
        tracing,
    )


def _risk_hook(settings: Settings) -> "RiskHook | None":
    if not settings.risk_url:
        return None
    # Its library is slow to import, and few installations need it.
    from holdfast.room.risk import RiskHook  # noqa: PLC0415 - see above

    return RiskHook(settings.risk_url, settings.risk_token.get_secret_value(), settings.risk_timeout_ms / 1000)


def _captcha(settings: Settings) -> CaptchaVerifier | None:
    if not settings.captcha_verify_url:
        return None
    from holdfast.room.site_verify import SiteVerify  # noqa: PLC0415 - as for the risk hook

    return SiteVerify(settings.captcha_verify_url, settings.captcha_secret.get_secret_value())


def _oidc(settings: Settings) -> Oidc | None:
    if not settings.oidc_issuer:
        return None
    secret = settings.oidc_client_secret.get_secret_value()
    return Oidc(settings.oidc_issuer, settings.oidc_client_id, secret, sealer_of(settings))


def _breakers_of(database: Database, link: GateLink | None) -> list[Breaker]:
    """A local file has no breaker, and neither has a Redis cluster."""
    stores: tuple[object, ...] = (database, link)
    return [store.breaker for store in stores if isinstance(store, Guarded) and store.breaker is not None]


@asynccontextmanager
async def _recording(settings: Settings, tracing: Tracing | None) -> AsyncIterator[Recorder]:
    kind = Recorder if tracing is None else TracedRecorder
    recorder = kind(settings.audit_directory, is_shared=not settings.is_embedded)
    recorder.start()
    try:
        yield recorder
    finally:
        await asyncio.to_thread(recorder.stop)


def build_sale_operations(settings: Settings, database: Database, engine: Engine) -> SaleOperations:
    missing = missing_payment_settings(settings)
    sealer = sealer_of(settings)
    loader = loader_of(database, engine)
    return SaleOperations(database, engine.gate, loader, missing, sealer, engine.restocker, settings.origins)


@contextmanager
def _server_locks(settings: Settings, roles: list[str]) -> Iterator[None]:
    with ExitStack() as held:
        for role in roles if settings.is_embedded else []:
            held.callback(ServerLock(database_file(settings), role).acquire().release)
        yield
