"""Of buyers told "p", about p got a unit: 12,000 simulated sales, seeds 0 to 11,999."""

from functools import cache
from math import sqrt

import pytest
from odds_model import Told, reliability, told_in, told_in_rush


@cache
def told() -> list[Told]:
    return [told_in(seed) for seed in range(12_000)]


@pytest.mark.slow
def test_of_buyers_told_p_about_p_get_a_unit() -> None:
    for mean, got, people in reliability(told()):
        print(f"told {mean:.2f}, got {got:.2f}, {people} people")
        chance = sqrt(max(mean * (1 - mean), 0.01) / people)
        assert abs(got - mean) < 0.04 + 2 * chance


@pytest.mark.slow
def test_the_odds_are_informative() -> None:
    """Better than telling everyone the average (Brier score), and buyers who are told they have no chance have none."""
    everyone = told()
    average = sum(one.has_got_one for one in everyone) / len(everyone)
    ours = sum((one.odds - one.has_got_one) ** 2 for one in everyone) / len(everyone)
    assert ours < 0.5 * average * (1 - average)
    hopeless = [one.has_got_one for one in everyone if one.odds < 0.01]
    assert len(hopeless) > 200
    assert sum(hopeless) <= 0.015 * len(hopeless)


@pytest.mark.slow
def test_of_those_told_70_to_80_percent_in_a_rush_70_to_80_percent_get_one() -> None:
    """From the first second on, over 200 rushes: within five points of every range that the page shows."""
    everyone = [one for seed in range(200) for one in told_in_rush(seed)]
    for mean, got, people in reliability(everyone):
        print(f"told {mean:.2f}, got {got:.2f}, {people} people")
        low = min(int(mean * 10), 9) / 10
        assert low - 0.05 <= got <= low + 0.15
