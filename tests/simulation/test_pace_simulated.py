"""The pace in simulated sales: twelve scenarios with three seeds each, and the same properties in all of them."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest
from draw_pace import FIGURES, figures
from pace_laws import aimd_without_knee, constant, gradient
from pace_model import Moment, Scenario, World
from pace_scenarios import EAGER, EVERY, HUGE, NO_SHOWS, RESTOCK, SLOW_PAYMENTS, STALL, STEADY, SURGE, TINY

# One of them every day, all in `make test-all`.
SEEDS = (1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3)))


@cache
def played(scenario: Scenario, seed: int) -> World:
    print(f"scenario {scenario.name}, seed {seed}")
    return World(scenario, seed).run()


def at(world: World, second: float) -> Moment:
    return next(moment for moment in world.moments if moment.at_s >= second)


def called_between(world: World, start: float, end: float) -> int:
    return at(world, end).serving - at(world, start).serving


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scenario", EVERY, ids=lambda scenario: scenario.name)
def test_the_queue_never_goes_back_and_nobody_is_called_beyond_the_bound(scenario: Scenario, seed: int) -> None:
    world = played(scenario, seed)
    for before, after in pairwise(world.moments):
        assert before.serving <= after.serving <= world.joined
        # Those who are late do not count, and a single person is called for units that nobody takes.
        if after.serving > before.serving + 1:
            assert after.inside <= after.room
    # Units are conserved whatever the pace does.
    restocked = scenario.restock[1] if scenario.restock else 0
    assert world.sold + world.held + world.available == scenario.stock + restocked


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scenario", EVERY, ids=lambda scenario: scenario.name)
def test_a_free_unit_is_offered_to_the_next_in_line_within_two_seconds(scenario: Scenario, seed: int) -> None:
    """Until four people have an offer for each free unit."""
    world, free_since = played(scenario, seed), 0.0
    for before, after in pairwise(world.moments):
        is_free = after.available > 0 and after.serving < world.joined and after.offers < after.offers_max
        if not is_free or after.serving > before.serving:
            free_since = after.at_s
        assert after.at_s - free_since <= 2.0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scenario", [s for s in EVERY if not s.is_lasting], ids=lambda scenario: scenario.name)
def test_a_long_queue_buys_every_unit(scenario: Scenario, seed: int) -> None:
    world = played(scenario, seed)
    assert world.pace.serving < scenario.line, "the line was too short to say"
    assert world.available + world.held == 0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scenario", [STEADY, HUGE], ids=lambda scenario: scenario.name)
def test_admission_follows_the_target_without_a_bottleneck(scenario: Scenario, seed: int) -> None:
    world = played(scenario, seed)
    for start in range(5, 65, 10):
        assert called_between(world, start, start + 10) == pytest.approx(10 * scenario.target, rel=0.02)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stall_lowers_the_rate_within_two_seconds_and_it_recovers(seed: int) -> None:
    world = played(STALL, seed)
    assert at(world, 20).rate == STALL.target
    assert at(world, 22).rate < STALL.target / 10
    assert called_between(world, 22, 30) < STALL.target
    assert at(world, 40).rate > STALL.target / 2
    assert at(world, 60).rate > STALL.target * 0.9


@pytest.mark.parametrize("seed", SEEDS)
def test_a_gate_slowed_by_joins_does_not_change_the_rate_of_purchases(seed: int) -> None:
    world = played(EAGER, seed)
    assert at(world, 6).rate < EAGER.target / 10
    assert at(world, 20).rate > EAGER.target * 0.9


@pytest.mark.parametrize("seed", SEEDS)
def test_no_shows_admit_more_but_do_not_overcrowd(seed: int) -> None:
    """Ten are called per buyer who shows up; fresh passes never exceed the units left, except for a few by chance."""
    world = played(NO_SHOWS, seed)
    assert max(moment.inside for moment in world.moments) > 1.5 * NO_SHOWS.stock
    assert world.pace.shows.value == pytest.approx(NO_SHOWS.shows, rel=0.25)
    assert world.most_passes_beyond_stock <= 25


@pytest.mark.parametrize("seed", SEEDS)
def test_the_queue_resumes_when_units_return(seed: int) -> None:
    world = played(RESTOCK, seed)
    assert called_between(world, 110, 119.5) <= 5
    assert called_between(world, 119.5, 125) > 300


@pytest.mark.parametrize("seed", SEEDS)
def test_few_are_called_for_few_units(seed: int) -> None:
    world = played(TINY, seed)
    assert max(moment.inside for moment in world.moments) <= 4 * TINY.stock
    assert world.pace.serving < 20 * TINY.stock


def unsettled(world: World) -> float:
    """For how many seconds the gate was slower than its limit."""
    return sum(moment.latency_ms > 100 for moment in world.moments) / 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_chosen_law_is_the_best_simulated(seed: int) -> None:
    """The figures of docs/PACE.md, and why this law was chosen."""
    begun = replace(SURGE, seconds=220)
    ours = World(begun, seed).run()
    others = {law.__name__: World(begun, seed, law).run() for law in (aimd_without_knee, gradient, constant)}
    assert unsettled(ours) < 0.75 * min(unsettled(others["aimd_without_knee"]), unsettled(others["constant"]))
    # After the first surprise the gate's queue stays short; without a knee it grows as long again each time.
    assert worst_after(ours, 60) < 0.25 * worst_after(others["aimd_without_knee"], 60)
    # It costs almost nothing: as much is sold after 200 seconds, and more than by following the gradient.
    assert at(ours, 200).sold > 0.93 * at(others["constant"], 200).sold
    assert at(ours, 200).sold > at(others["gradient"], 200).sold
    slow = World(replace(STALL, seconds=40), seed, gradient).run()
    assert called_between(slow, 20, 30) > 1.5 * called_between(played(STALL, seed), 20, 30)


def worst_after(world: World, second: float) -> float:
    return max(moment.latency_ms for moment in world.moments if moment.at_s > second)


@pytest.mark.parametrize("seed", SEEDS)
def test_slow_payments_slow_the_queue(seed: int) -> None:
    world = played(SLOW_PAYMENTS, seed)
    assert min(moment.rate for moment in world.moments) < SLOW_PAYMENTS.target / 3
    longest = max(moment.lag_ms for moment in world.moments)
    alone = max(moment.lag_ms for moment in World(replace(SLOW_PAYMENTS, seconds=150), seed, constant).run().moments)
    assert longest < 0.75 * alone


@pytest.mark.slow
def test_the_plots_in_the_docs_are_what_the_simulation_draws() -> None:
    for name, drawn in figures().items():
        assert (FIGURES / f"{name}.svg").read_text() == drawn, "draw them again: make plots"
