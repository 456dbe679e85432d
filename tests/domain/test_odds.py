"""Odds and waiting times in cases that can be worked out by hand; their calibration: tests/simulation."""

import pytest

from holdfast.domain.room.odds import Basket, Group, Outlook, Seen, eta_of, odds_of, told_odds

HALF = Seen(5_000, 5_000)


def test_enough_for_everyone_is_certain_and_nothing_is_hopeless() -> None:
    assert odds_of(100, [Group(99, Seen())]) == 1.0
    assert odds_of(100, []) == 1.0
    assert odds_of(0, []) == 0.0
    assert odds_of(1, [], wanted=2) == 0.0
    assert Outlook(10, 0.004).is_likely_sold_out
    assert not Outlook(10, 0.4).is_likely_sold_out


def test_odds_fall_along_the_line_from_certain_to_hopeless() -> None:
    told = [odds_of(100, [Group(ahead, HALF)]) for ahead in range(0, 400, 10)]
    assert told == sorted(told, reverse=True)
    assert told[0] > 0.999
    assert told[20] == pytest.approx(0.5, abs=0.06)
    assert told[-1] < 0.001


def test_little_known_makes_the_odds_less_sure() -> None:
    few, many = Seen(5, 5), Seen(5_000, 5_000)
    assert odds_of(100, [Group(150, few)]) < odds_of(100, [Group(150, many)])
    assert odds_of(100, [Group(280, few)]) > odds_of(100, [Group(280, many)])


def test_the_binomial_is_met() -> None:
    """Of 20 who each take one with chance ½, at most 10 do with probability 0.588; the curve says nearly that."""
    assert odds_of(11, [Group(20, Seen(10**6, 10**6))]) == pytest.approx(0.588, abs=0.005)


def test_who_takes_more_leaves_less() -> None:
    assert odds_of(100, [Group(150, HALF)], basket=Basket(2.0, 1.0)) < 0.01
    assert odds_of(100, [Group(150, HALF)], wanted=4) < odds_of(100, [Group(150, HALF)])


def test_the_wait_is_told_from_the_speed_the_line_has() -> None:
    assert eta_of(100, 10.0) == 10
    assert eta_of(100, 10.0, opens_in_ms=5_500) == 16
    assert eta_of(0, 0.0) == 0
    assert eta_of(5, 0.0) is None


def test_nobody_is_told_odds_before_enough_is_known_except_what_is_certain() -> None:
    few, enough = Seen(5, 4), Seen(5, 5)
    assert told_odds(100, [Group(150, few)]) is None
    assert told_odds(100, [Group(150, enough)]) == odds_of(100, [Group(150, enough)])
    assert told_odds(100, [Group(99, few)]) == 1.0
    assert told_odds(0, [Group(10, few)]) == 0.0
