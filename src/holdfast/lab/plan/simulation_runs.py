"""Runs a simulated sale to its end, and the last part several times with randomness.

The last units are few in any sale, and each may go to a no-show or an abandoned cart, one after the other, so chance
decides when the last one is sold. The end is therefore reported as the median of several runs, with the range of four
in five of them.
"""

from copy import deepcopy
from random import Random

from msgspec import Struct

from holdfast.lab.plan.capacity import Capacity
from holdfast.lab.plan.facts import Facts
from holdfast.lab.plan.figures import Figures
from holdfast.lab.plan.simulation import Simulation
from holdfast.lab.plan.snapshot import Snapshot

SHORT_STEP_S, LONG_STEP_S = 0.2, 1.0
LONG_SALE_S = 1_800.0
# The share of units sold at which randomness starts.
TAIL = 0.9
RUNS_MOST, RUNS_LEAST = 15, 5
# The step budget for all tails together, exceeded only to reach `RUNS_LEAST`; it takes less than a second.
STEPS_MOST = 8_000


class Run(Struct, frozen=True):
    snapshots: list[Snapshot]
    ends: list[list[Snapshot]]
    """The runs with randomness, from `TAIL` on."""


def simulate(facts: Facts, figures: Figures, capacity: Capacity, runs: int = 0) -> Run:
    """Simulates until everything is sold, everyone has left, or the sale ends."""
    if _expected_s(facts, capacity) <= LONG_SALE_S:
        found = _run(Simulation(facts, figures, capacity, SHORT_STEP_S), 2 * LONG_SALE_S, runs)
        if found is not None:
            return found
    until_s = facts.opens_after_s + facts.window_s
    found = _run(Simulation(facts, figures, capacity, LONG_STEP_S), until_s, runs)
    assert found is not None
    return found


def _run(simulation: Simulation, until_s: float, runs: int) -> Run | None:
    """Returns None if the sale has not ended by then."""
    closes_s = simulation.facts.opens_after_s + simulation.facts.window_s
    snapshots, ends = list[Snapshot](), list[list[Snapshot]]()
    before_tail = None
    while not simulation.is_over and simulation.at_s < min(until_s, closes_s):
        snapshots.append(simulation.step())
        if before_tail is None and runs and snapshots[-1].sold >= TAIL * simulation.facts.units:
            before_tail = deepcopy(simulation)
    if not simulation.is_over and simulation.at_s < closes_s:
        return None
    if before_tail is not None:
        steps = simulation.step_number - before_tail.step_number + 1
        runs = min(runs, max(STEPS_MOST // steps, RUNS_LEAST))
        # Includes the snapshot it starts from, because there may be none after it.
        first = snapshots[before_tail.step_number - 1]
        ends = [[first, *_end(deepcopy(before_tail), Random(seed), closes_s)] for seed in range(runs)]
    return Run(snapshots, ends)


def _end(simulation: Simulation, chance: Random, closes_s: float) -> list[Snapshot]:
    simulation.by_chance(chance)
    snapshots = []
    while not simulation.is_over and simulation.at_s < closes_s:
        snapshots.append(simulation.step())
    return snapshots


def _expected_s(facts: Facts, capacity: Capacity) -> float:
    sold_in_s = facts.units / facts.quantity / min(facts.rate_per_second, capacity.orders)
    return max(facts.over_s, facts.opens_after_s + sold_in_s) + 3 * facts.hold_s
