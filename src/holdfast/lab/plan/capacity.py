"""The capacity of a deployment, from the measured capacity of one process."""

from msgspec import Struct

from holdfast.lab.plan.facts import Facts, Payment
from holdfast.lab.plan.figures import Figures
from holdfast.settings import Settings

# Payments that one worker has in flight with the provider.
PAYMENTS_PARALLEL: int = Settings.model_fields["settlement_parallel"].default
NO_LIMIT = 1e12


class Deployment(Struct, frozen=True):
    """`edge` and `postgres` are cores; `api` and `workers` are processes, of one core each. Without a worker the server
    processes also settle orders."""

    edge: int = 1
    api: int = 1
    shards: int = 1
    postgres: int = 1
    workers: int = 1
    left: float = 1.0
    """The share of a core that a process gets when others run on the same machine."""


class Capacity(Struct, frozen=True):
    """Capacities per second. `api` is in seconds of work: two processes do two per second."""

    api: float = NO_LIMIT
    line: float = NO_LIMIT
    gate: float = NO_LIMIT
    orders: float = NO_LIMIT
    settles_itself: bool = False


def capacity_of(deployment: Deployment, facts: Facts, figures: Figures) -> Capacity:
    is_alone = deployment.workers == 0
    return Capacity(
        api=float(deployment.api) * deployment.left,
        line=figures.line.per_second,
        gate=figures.gate.per_second * deployment.shards,
        orders=orders_of_worker(facts, figures) * _settling(deployment),
        settles_itself=is_alone,
    )


def _settling(deployment: Deployment) -> float:
    """If server processes settle orders, request_scheduling.py decides how much of their time that gets."""
    return deployment.workers * deployment.left if deployment.workers else float(deployment.api)


def orders_of_worker(facts: Facts, figures: Figures) -> float:
    """Wallets are settled in bulk; for cards, the provider is called once per order."""
    if facts.payment is Payment.EXTERNAL:
        return NO_LIMIT
    if facts.payment is Payment.WALLET:
        return figures.wallet.per_second
    by_provider = PAYMENTS_PARALLEL / facts.provider_s if facts.provider_s > 0 else NO_LIMIT
    return min(figures.card.per_second, by_provider)
