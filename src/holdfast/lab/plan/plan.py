"""Makes a plan: simulates the sale with unlimited hardware to find the peak loads, then with the hardware for them."""

from msgspec import Struct

from holdfast.lab.plan.capacity import Capacity, Deployment, capacity_of
from holdfast.lab.plan.facts import Facts
from holdfast.lab.plan.figures import Figures
from holdfast.lab.plan.outcome import Outcome, outcome_of, peaks_of
from holdfast.lab.plan.simulation_runs import RUNS_MOST, simulate
from holdfast.lab.plan.snapshot import Snapshot
from holdfast.lab.plan.tiers import Sizing, Tier, by_utilisation, deployment_for, tiers_of


class Existing(Struct, frozen=True):
    """The hardware to plan with. None: as much as needed."""

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
    snapshots: list[Snapshot]

    @property
    def bottleneck(self) -> Tier:
        return by_utilisation(self.tiers)[0]


def make_plan(facts: Facts, figures: Figures, given: Existing | None = None, headroom: float = 0.3) -> Plan:
    facts.check()
    # More hardware does not speed up a single queue, so the queue limits everything behind it.
    unlimited = Capacity(line=figures.line.per_second)
    sizing = Sizing(facts, figures, peaks_of(simulate(facts, figures, unlimited).snapshots), headroom)
    deployment = _with(deployment_for(sizing), given or Existing())
    run = simulate(facts, figures, capacity_of(deployment, facts, figures), RUNS_MOST)
    tiers = tiers_of(sizing, deployment)
    return Plan(facts, figures, headroom, deployment, tiers, outcome_of(facts, run), run.snapshots)


def _with(needed: Deployment, given: Existing) -> Deployment:
    chosen = {
        name: getattr(needed, name) if getattr(given, name) is None else getattr(given, name)
        for name in Deployment.__struct_fields__
    }
    return Deployment(**chosen)
