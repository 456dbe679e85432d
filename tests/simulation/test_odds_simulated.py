"""Of those told "p", about p got one: 12,000 simulated sales, seeds 0 to 11,999."""

from functools import cache
from math import sqrt

from odds_world import Told, reliability, told_in


@cache
def told() -> list[Told]:
    return [told_in(seed) for seed in range(12_000)]


def test_of_those_told_p_about_p_get_one() -> None:
    for mean, got, people in reliability(told()):
        print(f"told {mean:.2f}, got {got:.2f}, {people} people")
        chance = sqrt(max(mean * (1 - mean), 0.01) / people)
        assert abs(got - mean) < 0.04 + 2 * chance


def test_the_odds_say_something() -> None:
    """Better than telling everyone the average: the Brier score, and whoever hears of hopelessness has none."""
    everyone = told()
    average = sum(one.has_got_one for one in everyone) / len(everyone)
    ours = sum((one.odds - one.has_got_one) ** 2 for one in everyone) / len(everyone)
    assert ours < 0.5 * average * (1 - average)
    hopeless = [one.has_got_one for one in everyone if one.odds < 0.01]
    assert len(hopeless) > 200
    assert sum(hopeless) <= 0.015 * len(hopeless)
