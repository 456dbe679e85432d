"""The required number of instances per tier, the remaining headroom, and the bottleneck.

A tier's load is its peak, as a multiple of what one instance does per second. `needed` is the number of instances that
keeps the load within the headroom. A tier that cannot be split (the queue of one sale, a pool outside Redis, SQLite's
single process) has one instance, and is reported when that is not enough. The bottleneck is the tier with the highest
utilisation.
"""

from math import ceil

from msgspec import Struct

from holdfast.lab.plan.capacity import PAYMENTS_PARALLEL, Deployment, orders_of_worker
from holdfast.lab.plan.facts import Facts, Payment
from holdfast.lab.plan.figures import Figure, Figures
from holdfast.lab.plan.outcome import Peaks

# The rate unit of a tier whose load has several sources: a multiple of this sale.
OF_THIS = "times this sale"


class Tier(Struct, frozen=True):
    name: str
    unit: str
    # The peak, as a multiple of the capacity of one instance.
    load: float
    needed: int
    given: int
    can_grow: bool
    follows_from: str
    figures: list[str]
    then: str
    """The effect on buyers when the tier saturates."""
    rate: float
    """The peak, in `rate_unit`, which is also the unit of `breaks_at`."""
    rate_unit: str

    @property
    def counted(self) -> str:
        """The number of instances with its unit."""
        one = self.unit.removesuffix("es") if self.unit.endswith("sses") else self.unit.removesuffix("s")
        if not self.can_grow:
            return f"1 {one} (fixed)"
        return f"{self.needed} {one if self.needed == 1 else self.unit}"

    @property
    def used(self) -> float:
        return self.load / self.given

    @property
    def breaks_at(self) -> float:
        return self.rate / self.used if self.used else float("inf")

    @property
    def is_enough(self) -> bool:
        return self.used <= 1


class Sizing(Struct, frozen=True):
    facts: Facts
    figures: Figures
    peaks: Peaks
    headroom: float

    def count(self, load: float) -> int:
        return max(1, ceil(load / (1 - self.headroom) - 1e-9))


def deployment_for(sizing: Sizing) -> Deployment:
    """The number of instances each tier needs, where it can have more than one."""
    is_embedded = sizing.facts.engine == "sqlite"
    return Deployment(
        edge=sizing.count(_edge_load(sizing)),
        api=1 if is_embedded else sizing.count(_api_load(sizing, settles_itself=False)),
        shards=sizing.count(_gate_load(sizing)) if sizing.facts.engine == "redis" else 1,
        postgres=sizing.count(_postgres_load(sizing)),
        # Without a worker the server does its work.
        workers=0 if is_embedded else sizing.count(_workers_load(sizing)),
    )


def tiers_of(sizing: Sizing, given: Deployment) -> list[Tier]:
    facts = sizing.facts
    found = [
        _edge(sizing, given) if facts.has_edge and facts.has_room else None,
        _api(sizing, given),
        _line(sizing) if facts.has_room else None,
        _gate(sizing, given),
        None if facts.engine == "sqlite" else _postgres(sizing, given),
        _workers(sizing, given) if given.workers and _has_work(facts) else None,
    ]
    return [tier for tier in found if tier is not None]


def _has_work(facts: Facts) -> bool:
    return facts.payment is not Payment.EXTERNAL or facts.engine == "redis"


def by_utilisation(tiers: list[Tier]) -> list[Tier]:
    """Sorted by utilization, the bottleneck first."""
    return sorted(tiers, key=lambda tier: -tier.used)


def _edge_load(sizing: Sizing) -> float:
    return sizing.peaks.looks / sizing.figures.edge.per_second if sizing.facts.has_edge else 0.0


def _gate_load(sizing: Sizing) -> float:
    return sizing.peaks.commands / sizing.figures.gate.per_second


def _line_load(sizing: Sizing) -> float:
    return sizing.peaks.wished / sizing.figures.line.per_second


def _postgres_load(sizing: Sizing) -> float:
    figures, peaks = sizing.figures, sizing.peaks
    decided = peaks.changes / figures.ledger.per_second if sizing.facts.engine == "redis" else _gate_load(sizing)
    placed = peaks.places / figures.line.per_second
    return placed + decided + peaks.orders / figures.wallet.per_second


def _api_load(sizing: Sizing, *, settles_itself: bool) -> float:
    """In seconds of server time per second, including orders if no worker settles them."""
    if not settles_itself or sizing.facts.payment is Payment.EXTERNAL:
        return sizing.peaks.work_s
    return sizing.peaks.work_s + sizing.peaks.orders / orders_of_worker(sizing.facts, sizing.figures)


def _workers_load(sizing: Sizing) -> float:
    orders = sizing.peaks.orders / orders_of_worker(sizing.facts, sizing.figures)
    return orders + (sizing.peaks.changes / sizing.figures.drain.per_second if sizing.facts.engine == "redis" else 0.0)


def _edge(sizing: Sizing, given: Deployment) -> Tier:
    figure, looks, load = sizing.figures.edge, sizing.peaks.looks, _edge_load(sizing)
    words = f"{looks:,.0f} polls/s at the longest queue ÷ {figure.per_second:,.0f}; one per second reaches the server"
    then = "people in line see their turn late"
    return Tier(
        "edge", "cores", load, sizing.count(load), given.edge, True, words, [_cited(figure)], then, looks, "polls/s"
    )


def _api(sizing: Sizing, given: Deployment) -> Tier:
    facts, figures, peaks = sizing.facts, sizing.figures, sizing.peaks
    parts = [
        (peaks.places, "joins and passes", figures.join),
        (peaks.grants * facts.attempts_each, "purchases", figures.purchase),
        (peaks.paid, "payments", figures.confirm),
        (peaks.watches, "payment status reads", figures.watch),
        (peaks.receipts, "order reads", figures.receipt),
        (0.0 if facts.has_room else peaks.attempts - peaks.grants, "refusals", figures.refusal),
        (0.0 if facts.has_edge else peaks.looks, "polls of `now`", figures.look),
    ]
    load = _api_load(sizing, settles_itself=given.workers == 0)
    if load > peaks.work_s:
        parts.append((peaks.orders, "orders", figures.wallet if facts.payment is Payment.WALLET else figures.card))
    shown = [part for part in parts if part[0] > 0]
    words = ", ".join(f"at most {rate:,.0f} {name}/s ÷ {figure.per_second:,.0f}" for rate, name, figure in shown)
    is_one = facts.engine == "sqlite"
    return Tier(
        "API", "processes", load, 1 if is_one else sizing.count(load), given.api, not is_one,
        f"{words}; in total at most {load:,.2f} s of work per second",
        [_cited(figure) for _, _, figure in shown],
        "responses slow down, then 503 `busy`: first for joins, later purchases, last payments",
        1.0, OF_THIS,
    )  # fmt: skip


def _line(sizing: Sizing) -> Tier:
    figure, rate = sizing.figures.line, sizing.peaks.wished
    words = f"{rate:,.0f} joins and passes/s ÷ {figure.per_second:,.0f}"
    then = "joins are delayed or refused with `busy`; nobody loses their place"
    return Tier(
        "line", "row", _line_load(sizing), 1, 1, False, words, [_cited(figure)], then, rate, "joins and passes/s"
    )


def _gate(sizing: Sizing, given: Deployment) -> Tier:
    figure, rate, load = sizing.figures.gate, sizing.peaks.commands, _gate_load(sizing)
    is_redis = sizing.facts.engine == "redis"
    words = f"{rate:,.0f} purchases and payments/s ÷ {figure.per_second:,.0f}"
    then = "purchases slow down; beyond 100 ms fewer people are admitted per second"
    return Tier(
        "Redis" if is_redis else "gate", "shards" if is_redis else "pool", load,
        sizing.count(load) if is_redis else 1, given.shards, is_redis, words, [_cited(figure)], then,
        rate, "purchases and payments/s",
    )  # fmt: skip


def _postgres(sizing: Sizing, given: Deployment) -> Tier:
    figures, peaks, load = sizing.figures, sizing.peaks, _postgres_load(sizing)
    is_redis = sizing.facts.engine == "redis"
    decided = (peaks.changes, "changes", figures.ledger) if is_redis else (peaks.commands, "decisions", figures.gate)
    parts = [
        (peaks.places, "joins and passes", figures.line),
        decided,
        (peaks.orders, "orders", figures.wallet),
    ]
    shown = [part for part in parts if part[0] > 0]
    words = " + ".join(f"{rate:,.0f} {name}/s ÷ {figure.per_second:,.0f}" for rate, name, figure in shown)
    then = "all writes are delayed: joins, orders, the copy of the journal"
    return Tier(
        "PostgreSQL", "cores", load, sizing.count(load), given.postgres, True, words,
        [_cited(figure) for _, _, figure in shown], then, 1.0, OF_THIS,
    )  # fmt: skip


def _workers(sizing: Sizing, given: Deployment) -> Tier:
    facts, figures, peaks, load = sizing.facts, sizing.figures, sizing.peaks, _workers_load(sizing)
    each = orders_of_worker(facts, figures)
    figure = figures.wallet if facts.payment is Payment.WALLET else figures.card
    words, cited = [], []
    if facts.payment is not Payment.EXTERNAL:
        why = f" ({PAYMENTS_PARALLEL} concurrent provider calls)" if each < figure.per_second else ""
        words.append(f"{peaks.orders:,.0f} orders/s ÷ {each:,.0f}{why}")
        cited.append(_cited(figure))
    if facts.engine == "redis":
        words.append(f"{peaks.changes:,.0f} changes/s ÷ {figures.drain.per_second:,.0f}")
        cited.append(_cited(figures.drain))
    is_one = facts.engine == "sqlite"
    return Tier(
        "workers", "processes", load, 1 if is_one else sizing.count(load), given.workers, not is_one,
        " + ".join(words), cited, "orders are confirmed late; beyond 10 s fewer people are admitted per second",
        *((peaks.orders, "orders/s") if facts.payment is not Payment.EXTERNAL else (1.0, OF_THIS)),
    )  # fmt: skip


def _cited(figure: Figure) -> str:
    return f"{figure.per_second:,.0f}/s {figure.about} ({figure.source})"
