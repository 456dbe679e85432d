"""A plan: first the sale as if machines were free, to see what it asks of them; then with as many as that takes."""

from msgspec import Struct

from holdfast.plan.capacity import Capacity, Deployment, capacity_of
from holdfast.plan.facts import Facts
from holdfast.plan.figures import Figures
from holdfast.plan.moment import Moment
from holdfast.plan.outcome import Outcome, outcome_of, peaks_of
from holdfast.plan.running import RUNS_MOST, simulate
from holdfast.plan.tiers import Sizing, Tier, breaking, deployment_for, tiers_of


class Given(Struct, frozen=True):
    """What there is already. None: as many as are needed."""

    edge: int | None = None
    api: int | None = None
    shards: int | None = None
    postgres: int | None = None
    workers: int | None = None
    left: float | None = None


class Plan(Struct, frozen=True):
    facts: Facts
    figures: Figures
    headroom: float
    deployment: Deployment
    tiers: list[Tier]
    outcome: Outcome
    moments: list[Moment]

    @property
    def breaks_first(self) -> Tier:
        return breaking(self.tiers)[0]


def make_plan(facts: Facts, figures: Figures, given: Given | None = None, headroom: float = 0.3) -> Plan:
    facts.check()
    # No machine makes one line faster, so what is behind it never sees more than it lets through.
    as_if_free = Capacity(line=figures.line.per_second)
    sizing = Sizing(facts, figures, peaks_of(simulate(facts, figures, as_if_free).moments), headroom)
    deployment = _with(deployment_for(sizing), given or Given())
    run = simulate(facts, figures, capacity_of(deployment, facts, figures), RUNS_MOST)
    tiers = tiers_of(sizing, deployment)
    return Plan(facts, figures, headroom, deployment, tiers, outcome_of(facts, run), run.moments)


def _with(needed: Deployment, given: Given) -> Deployment:
    chosen = {
        name: getattr(needed, name) if getattr(given, name) is None else getattr(given, name)
        for name in Deployment.__struct_fields__
    }
    return Deployment(**chosen)
