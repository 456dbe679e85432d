"""Opens the payment services: providers, settlement, refunds, the audit of payments."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

import structlog
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import select

from holdfast.bootstrap.tracing import Tracing
from holdfast.domain.sale.sale import PaymentKind
from holdfast.errors import EngineError
from holdfast.gate.engine import Engine
from holdfast.ledger.engine.database import Database
from holdfast.ledger.mark.mark import Mark, read_incarnations
from holdfast.ledger.money.wallet import Wallet
from holdfast.ledger.tables.stock import events
from holdfast.payments.guarded import GuardedProvider
from holdfast.payments.port import PaymentProvider
from holdfast.payments.providers import open_providers
from holdfast.payments.rates import FixedRates, RateProvider, rates_from
from holdfast.runtime.breaker import Breaker
from holdfast.settings import Settings
from holdfast.settlement.charge_lists import ChargeLists
from holdfast.settlement.compensate import Compensator
from holdfast.settlement.interpreter import Interpreter
from holdfast.settlement.parked import Parked
from holdfast.settlement.payment_audit import PaymentAudit
from holdfast.settlement.posting import Posting
from holdfast.settlement.purchases import Purchases
from holdfast.settlement.refund import Refunder
from holdfast.settlement.settler import Settler
from holdfast.settlement.traced import TracedInterpreter, TracedPosting
from holdfast.settlement.unknown_charges import UnknownCharges

log = structlog.get_logger()

# At the start of a server that finds no other mark. A sound ledger has all but the charges of the last moments.
MARK_TIMEOUT_S = 10.0
MARK_MARGIN_MS = 60_000
# How long settlements are left to the consumers of intents before the settler looks after them.
INTENT_GRACE_MS = 5_000


class PaymentServices(Struct, frozen=True, eq=False):
    wallet: Wallet
    settler: Settler
    # Settles what intents in Kafka name.
    purchases: Purchases
    refunder: Refunder
    parked: Parked
    compensator: Compensator
    audit: PaymentAudit
    charge_lists: ChargeLists
    providers: Mapping[str, PaymentProvider]
    # One per provider, open while it does not answer.
    breakers: Sequence[Breaker] = ()
    rates: RateProvider = FixedRates({})


def configured_providers(settings: Settings) -> dict[str, PaymentProvider]:
    """The caller closes them."""
    return open_providers(
        sandbox_url=settings.payment_sandbox_url,
        stripe_api_key=settings.stripe_api_key.get_secret_value(),
        stripe_api_base=settings.stripe_api_base,
        timeout_s=settings.payment_timeout_ms / 1000,
    )


@asynccontextmanager
async def open_payment_services(
    settings: Settings, database: Database, engine: Engine, tracing: Tracing | None = None
) -> AsyncIterator[PaymentServices]:
    opened = configured_providers(settings)
    providers = {name: GuardedProvider(name, provider) for name, provider in opened.items()}
    rates = rates_from(settings.rates, settings.rates_url)
    try:
        yield replace(build_payment_services(settings, database, engine, providers, tracing), rates=rates)
    finally:
        await rates.close()
        for provider in providers.values():
            await provider.close()


@asynccontextmanager
async def open_unknown_charges(settings: Settings, database: Database) -> AsyncIterator[UnknownCharges]:
    providers = configured_providers(settings)
    try:
        yield UnknownCharges(database, providers)
    finally:
        for provider in providers.values():
            await provider.close()


async def mark_of_charges(settings: Settings, database: Database) -> Mark | None:
    """A mark that a charge carries and the ledger lacks; None if a provider does not answer in time."""
    if not await database.read(read_incarnations):
        return None
    try:
        async with asyncio.timeout(MARK_TIMEOUT_S), open_unknown_charges(settings, database) as charges:
            return await charges.lacking_mark(await begun_since(database, MARK_MARGIN_MS))
    except (EngineError, TimeoutError) as exc:
        log.warning("ledger_mark_not_read", error=repr(exc))
        return None


async def begun_since(database: Database, margin_ms: int) -> int:
    """When charges began that the ledger may lack."""
    latest = select(events.c.at).order_by(events.c.seq.desc()).limit(1)
    return max(await database.read(lambda c: c.execute(latest).scalar() or 0) - margin_ms, 0)


def build_payment_services(
    settings: Settings,
    database: Database,
    engine: Engine,
    providers: dict[str, GuardedProvider],
    tracing: Tracing | None = None,
) -> PaymentServices:
    attempts_max = settings.settlement_attempts_max
    post = Posting if tracing is None else partial(TracedPosting, tracing.store)
    interpret = Interpreter if tracing is None else partial(TracedInterpreter, tracing.tracer, tracing.store)
    posting = post(database, has_redis=settings.has_redis, attempts_max=attempts_max)
    interpreter = interpret(database, engine.gate, posting, providers)
    limits = {
        "rate_per_second": settings.settlement_rate_per_second,
        "parallel": settings.settlement_parallel,
        # Longer than a worker can wait for a provider, which it calls at most three times.
        "lease_ms": 5_000 + 4 * settings.payment_timeout_ms,
    }
    grace_ms = INTENT_GRACE_MS if settings.has_intents else 0
    settler = Settler(database, posting, interpreter, **limits, grace_ms=grace_ms)
    refunder = Refunder(database, providers, engine.restocker, attempts_max=attempts_max)
    compensator = Compensator(database, engine.gate, refunder)
    return PaymentServices(
        Wallet(database),
        settler,
        Purchases(database, posting, interpreter, **limits),
        refunder,
        Parked(database, settler, providers),
        compensator,
        PaymentAudit(database, settler, providers, compensator),
        ChargeLists(database, settler, UnknownCharges(database, providers), restores=not settings.has_redis),
        providers,
        [provider.breaker for provider in providers.values()],
    )


def missing_payment_settings(settings: Settings) -> dict[PaymentKind, str]:
    """The payment kinds that this server cannot take, each with the missing setting."""
    needed = {
        PaymentKind.SANDBOX: (settings.payment_sandbox_url, "HOLDFAST_PAYMENT_SANDBOX_URL"),
        PaymentKind.STRIPE: (settings.stripe_api_key.get_secret_value(), "HOLDFAST_STRIPE_API_KEY"),
    }
    return {kind: name for kind, (value, name) in needed.items() if not value}
