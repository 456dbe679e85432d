"""Flows in whole numbers: nobody is lost or invented, and shares are exact."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.lab.plan.flows import Ages, Allowance, Delay, Share

crowds = st.lists(st.integers(0, 10_000), min_size=1, max_size=30)


@given(crowds, st.floats(0, 5), st.floats(0, 10))
def test_everyone_who_goes_in_comes_out_once_and_in_time(crowd: list[int], least_s: float, more_s: float) -> None:
    delay = Delay(0.2, least_s, least_s + more_s)
    out = []
    for count in crowd:
        delay.put(count)
        out.append(delay.step())
        assert sum(out) + delay.inside == sum(crowd[: len(out)])
    out += [delay.step() for _ in range(round((least_s + more_s) / 0.2) + 2)]
    assert sum(out) == sum(crowd)
    assert delay.inside == 0
    assert min(out) >= 0


def test_a_single_person_comes_out_in_the_middle_of_the_interval() -> None:
    delay = Delay(0.2, 0.0, 4.0)
    delay.put(1)
    assert [delay.step() for _ in range(20)].index(1) == pytest.approx(10, abs=1)


def test_a_group_comes_out_evenly() -> None:
    delay = Delay(0.2, 1.0, 3.0)
    delay.put(100)
    assert [delay.step() for _ in range(16)] == [0] * 4 + [10] * 10 + [0] * 2


def test_a_shorter_interval_can_be_given() -> None:
    delay = Delay(0.2, 0.2, 4.2)
    delay.put(100, within_s=1.0)
    assert [delay.step() for _ in range(7)] == [20] * 5 + [0] * 2


@given(crowds, st.floats(0, 1))
def test_a_share_is_exact_up_to_a_fraction_of_one_person(crowd: list[int], part: float) -> None:
    share = Share(part)
    taken = [share.of(count) for count in crowd]
    assert abs(sum(taken) - sum(crowd) * part) <= 0.51
    assert all(0 <= some <= count for some, count in zip(taken, crowd, strict=True))


@given(crowds, st.floats(0.1, 1_000))
def test_no_more_are_served_than_there_are_or_than_is_allowed(crowd: list[int], per_second: float) -> None:
    allowance = Allowance(0.2, per_second)
    taken = []
    for count in crowd:
        allowance.renew()
        first = allowance.take(count // 2)
        taken.append(first + allowance.take(count - first))
    assert all(0 <= some <= count for some, count in zip(taken, crowd, strict=True))
    assert sum(taken) <= per_second * 0.2 * len(crowd) + 1


def test_a_slow_machine_serves_as_many_as_it_can_in_the_long_run() -> None:
    allowance = Allowance(0.2, 7.0)
    served = 0
    for _ in range(500):
        allowance.renew()
        served += allowance.take(100)
    assert served == pytest.approx(700, abs=1)


def test_a_minimum_wait_can_be_given() -> None:
    delay = Delay(0.2, 0.0, 8.0)
    delay.put(100, within_s=1.0, after_s=2.0)
    assert [delay.step() for _ in range(16)] == [0] * 10 + [20] * 5 + [0]


@given(crowds, st.integers(0, 1_000))
def test_with_randomness_everyone_still_comes_out_once(crowd: list[int], seed: int) -> None:
    delay = Delay(0.2, 1.0, 3.0)
    delay.chance = Random(seed)
    out = []
    for count in crowd:
        delay.put(count % 60)
        out.append(delay.step())
        assert sum(out) + delay.inside == sum(one % 60 for one in crowd[: len(out)])
    out += [delay.step() for _ in range(20)]
    assert sum(out) == sum(one % 60 for one in crowd)


def test_small_groups_are_random_and_large_ones_average() -> None:
    drawn = []
    for seed in range(20):
        share = Share(0.5)
        share.chance = Random(seed)
        drawn.append(share.of(10))
        assert share.of(10_000) in (5_000, 5_001)
    assert min(drawn) < 5 < max(drawn)


def test_the_oldest_waiting_is_the_first_to_arrive() -> None:
    ages = Ages()
    assert ages.of_oldest(9.0) == 0
    ages.put(3, 1.0)
    ages.put(2, 4.0)
    ages.take(2)
    assert ages.of_oldest(9.0) == 8
    ages.take(1)
    assert ages.of_oldest(9.0) == 5
    ages.take(2)
    assert ages.of_oldest(9.0) == 0
