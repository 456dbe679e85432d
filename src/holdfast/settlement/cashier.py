"""Everything that has to do with money, put together."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from holdfast.domain.breaker import Breaker
from holdfast.gate.port import Gate
from holdfast.ledger.batch import BatchQueries
from holdfast.ledger.database import Database
from holdfast.ledger.wallet import Wallet
from holdfast.payments.guarded import GuardedProvider
from holdfast.payments.port import PaymentProvider
from holdfast.settings import Settings
from holdfast.settlement.compensate import Compensator
from holdfast.settlement.desk import Desk
from holdfast.settlement.parked import Parked
from holdfast.settlement.payment_audit import PaymentAudit
from holdfast.settlement.refund import Refunder, Restocker
from holdfast.settlement.settle import Settler


class Cashier(Struct, frozen=True, eq=False):
    wallet: Wallet
    settler: Settler
    refunder: Refunder
    parked: Parked
    compensator: Compensator
    audit: PaymentAudit
    breakers: Sequence[Breaker] = ()
    """Open for providers that do not answer."""


def build_cashier(
    settings: Settings,
    database: Database,
    gate: Gate,
    providers: Mapping[str, PaymentProvider],
    restocker: Restocker | None,
) -> Cashier:
    attempts_max = settings.settlement_attempts_max
    queries = BatchQueries(database.dialect_name)
    desk = Desk(database, queries, has_redis=settings.has_redis, attempts_max=attempts_max)
    settler = Settler(
        database,
        gate,
        desk,
        providers,
        rate_per_second=settings.settlement_rate_per_second,
        parallel=settings.settlement_parallel,
        # Whoever waits for a provider must not lose the lease over it: it is asked three times at most on the way.
        lease_ms=5_000 + 4 * settings.payment_timeout_ms,
    )
    refunder = Refunder(database, providers, restocker, attempts_max=attempts_max)
    compensator = Compensator(database, gate, refunder)
    return Cashier(
        Wallet(database),
        settler,
        refunder,
        Parked(database, settler, providers),
        compensator,
        PaymentAudit(database, settler, providers, compensator),
        [provider.breaker for provider in providers.values() if isinstance(provider, GuardedProvider)],
    )
