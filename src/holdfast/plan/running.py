"""Lets a simulated sale run to its end; and its last part again and again, to see what chance makes of it.

The last units are few in any sale, and each may be held by somebody who does not come, or lies in a cart that lapses:
one after the other, so that luck decides whether the last of all is sold a minute sooner or later. What is said of the
end is therefore the middle of several runs and a range in which four of five of them ended.
"""

from copy import deepcopy
from random import Random

from msgspec import Struct

from holdfast.plan.capacity import Capacity
from holdfast.plan.facts import Facts
from holdfast.plan.figures import Figures
from holdfast.plan.moment import Moment
from holdfast.plan.simulation import Simulation

SHORT_STEP_S, LONG_STEP_S = 0.2, 1.0
LONG_SALE_S = 1_800.0
# Where chance begins to decide, as a part of all units.
TAIL = 0.9
RUNS_MOST, RUNS_LEAST = 15, 5
# So many steps of a tail are simulated in all, if that makes enough runs: less than a second.
STEPS_MOST = 8_000


class Run(Struct, frozen=True):
    moments: list[Moment]
    ends: list[list[Moment]]
    """What became of it from `TAIL` on, each time that chance decided."""


def simulate(facts: Facts, figures: Figures, capacity: Capacity, runs: int = 0) -> Run:
    """Until everything is sold, or everyone has gone, or the sale ends."""
    if _expected_s(facts, capacity) <= LONG_SALE_S:
        found = _run(Simulation(facts, figures, capacity, SHORT_STEP_S), 2 * LONG_SALE_S, runs)
        if found is not None:
            return found
    until_s = facts.opens_after_s + facts.window_s
    found = _run(Simulation(facts, figures, capacity, LONG_STEP_S), until_s, runs)
    assert found is not None
    return found


def _run(simulation: Simulation, until_s: float, runs: int) -> Run | None:
    """None if it is not over by then."""
    closes_s = simulation.facts.opens_after_s + simulation.facts.window_s
    moments, ends = list[Moment](), list[list[Moment]]()
    before_tail = None
    while not simulation.is_over and simulation.at_s < min(until_s, closes_s):
        moments.append(simulation.step())
        if before_tail is None and runs and moments[-1].sold >= TAIL * simulation.facts.units:
            before_tail = deepcopy(simulation)
    if not simulation.is_over and simulation.at_s < closes_s:
        return None
    if before_tail is not None:
        steps = simulation.step_number - before_tail.step_number + 1
        runs = min(runs, max(STEPS_MOST // steps, RUNS_LEAST))
        # From the moment on at which it began: there may be none after it.
        first = moments[before_tail.step_number - 1]
        ends = [[first, *_end(deepcopy(before_tail), Random(seed), closes_s)] for seed in range(runs)]
    return Run(moments, ends)


def _end(simulation: Simulation, chance: Random, closes_s: float) -> list[Moment]:
    simulation.by_chance(chance)
    moments = []
    while not simulation.is_over and simulation.at_s < closes_s:
        moments.append(simulation.step())
    return moments


def _expected_s(facts: Facts, capacity: Capacity) -> float:
    sold_in_s = facts.units / facts.quantity / min(facts.rate_per_second, capacity.orders)
    return max(facts.over_s, facts.opens_after_s + sold_in_s) + 3 * facts.hold_s
