"""The pace, step by step and under anything that might be observed. Whole sales: tests/simulation."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.domain.room.pace import (
    LATE_MS,
    LEAST_SHARE,
    MAX_CREDIT_S,
    MAX_STEP_MS,
    OFFERED_MAX,
    Counts,
    Observation,
    Pace,
    Share,
    admit,
    advance,
    begin,
    paused,
    room_for,
    with_rate,
)

PLENTY = Observation(joined=10**6, called=0, passes=0, available=10**6)


def walked(pace: Pace, seen: Observation, seconds: float, step_ms: int = 100) -> Pace:
    for _ in range(int(seconds * 1_000 / step_ms)):
        pace = advance(pace, seen, pace.at + step_ms)
    return pace


def test_the_target_is_met_whatever_the_step() -> None:
    for step_ms in (20, 100, 250, 1_000):
        assert abs(walked(begin(2_000, 300, 0), PLENTY, 10, step_ms).serving - 20_000) <= 1
        assert abs(walked(begin(0.5, 300, 0), PLENTY, 60, step_ms).serving - 30) <= 1


def test_the_line_ends_where_it_ends() -> None:
    pace = walked(begin(100, 300, 0), replace(PLENTY, joined=7), 10)
    assert pace.serving == 7
    assert walked(pace, replace(PLENTY, joined=5), 1).serving == 7


def test_a_long_silence_is_not_made_up_for() -> None:
    assert advance(begin(100, 300, 0), PLENTY, 3_600_000).serving == 100 * MAX_STEP_MS // 1_000


def test_a_clock_that_goes_back_calls_nobody_and_harms_nothing() -> None:
    pace = walked(begin(100, 300, 10_000), PLENTY, 1)
    back = advance(pace, PLENTY, 5_000)
    assert (back.serving, back.at) == (pace.serving, pace.at)


def test_what_stock_held_back_does_not_come_as_a_crowd() -> None:
    waiting = walked(begin(100, 300, 0), replace(PLENTY, available=0), 60)
    assert waiting.serving == 0
    assert advance(waiting, PLENTY, waiting.at + 100).serving <= 100 * MAX_CREDIT_S + 10


def test_with_nobody_known_as_many_are_called_as_there_are_units() -> None:
    assert room_for(begin(100, 300, 0), replace(PLENTY, available=50, called=10, passes=15)) == 25
    assert room_for(begin(100, 300, 0), replace(PLENTY, available=50, called=40, passes=15)) == 0
    assert room_for(begin(100, 300, 0, units_each=4), replace(PLENTY, available=50)) == 12


def test_the_last_unit_is_for_somebody_though_most_take_more() -> None:
    last = replace(PLENTY, available=1)
    assert room_for(begin(100, 300, 0, units_each=4), last) == 1
    assert room_for(begin(100, 300, 0, units_each=4), replace(last, passes=1)) == 0


def test_free_units_are_offered_to_another_within_two_seconds_if_those_called_do_not_come() -> None:
    seen = Observation(joined=100, called=2, passes=0, available=2)
    pace = replace(begin(100, 60, 0), serving=2, called_at=0)
    offers = []
    for now in range(200, 20_000, 200):
        before = pace.serving
        pace = advance(pace, seen, now)
        if pace.serving > before:
            offers.append(now)
        seen = replace(seen, called=seen.called + pace.serving - before)
    assert offers[0] <= 2_000
    assert all(later - earlier <= 2_000 for earlier, later in pairwise(offers))
    # Nobody comes: it ends with four people for each unit, until their calls expire.
    assert seen.called == OFFERED_MAX * 2


def test_every_unit_kept_for_people_who_do_not_come_is_offered_to_another_at_once() -> None:
    """Six units came back, and six people were called for them, of whom one came and bought."""
    pace = replace(begin(100, 60, 0), serving=6, called_at=0, at=LATE_MS)
    seen = Observation(joined=100, called=5, late=5, passes=0, available=5)
    pace = advance(pace, seen, LATE_MS + 200)
    assert pace.serving == 6 + 5
    # Those are on time, and nobody else is called until they are late, too, but for one every two seconds.
    seen = replace(seen, called=10)
    assert advance(pace, seen, LATE_MS + 400).serving == pace.serving
    assert advance(pace, seen, LATE_MS + 2_200).serving == pace.serving + 1
    assert advance(pace, replace(seen, called=20, late=20), LATE_MS + 3_400).serving == pace.serving, "four for each"


def test_a_buyer_who_pays_with_a_second_card_does_not_count_as_one_who_takes_two() -> None:
    """Otherwise the room is too small for the last units: of two free ones only one would be offered."""
    pace = replace(begin(100, 60, 0), units_each_max=1.0)
    pace = advance(pace, replace(PLENTY, counts=Counts(passes_used=10, units_taken=12)), 100)
    assert pace.units_each == 1
    assert room_for(pace, replace(PLENTY, available=2)) == 2


def test_nobody_more_is_called_for_units_that_are_taken_in_time() -> None:
    pace = replace(begin(100, 60, 0), serving=2, called_at=1_000)
    assert advance(pace, Observation(joined=100, called=2, passes=0, available=2), 2_000).serving == 2
    assert advance(pace, Observation(joined=100, called=2, passes=0, available=0), 60_000).serving == 2
    assert advance(paused(pace, is_paused=True), Observation(100, 2, 0, 2), 60_000).serving == 2


def test_no_shows_make_room_for_others() -> None:
    seen = replace(PLENTY, available=100, counts=Counts(passes_given=1_000, calls_lapsed=9_000))
    pace = advance(begin(100, 300, 0), seen, 100)
    assert 0.1 <= pace.shows.value < 0.11
    assert 900 < room_for(pace, seen) <= 1_000
    # Who has come is no no-show any more, and counts in full.
    assert room_for(pace, replace(seen, passes=100)) == 0


def test_passes_that_lie_about_stop_counting() -> None:
    seen = replace(PLENTY, available=50, passes=50, stale=50)
    pace = begin(100, 300, 0)
    assert room_for(pace, seen) == 1
    assert room_for(walked(pace, seen, 60), seen) > 15
    # Unless people do buy with such passes.
    busy = replace(seen, counts=Counts(passes_used=500, stale_used=500))
    assert room_for(walked(pace, busy, 60), busy) == 1


def test_what_people_did_is_forgotten_in_time() -> None:
    share = Share().after(0, 1_000, 0)
    assert share.value == LEAST_SHARE
    assert share.after(0, 0, 10 * 3_600_000).value > 0.99


def test_counts_that_go_back_after_a_restart_teach_nothing() -> None:
    pace = advance(begin(100, 300, 0), replace(PLENTY, counts=Counts(passes_given=50, calls_lapsed=50)), 100)
    again = advance(pace, PLENTY, 200)
    assert again.shows.value == Share(pace.shows.yes, pace.shows.no).after(0, 0, 100).value


def test_pressure_halves_the_rate_twice_a_second_and_quiet_brings_it_back() -> None:
    pace = walked(begin(1_000, 300, 0), PLENTY, 5)
    slow = replace(PLENTY, gate_latency_ms=500.0)
    assert walked(pace, slow, 1).rate_per_second == 250
    eased = walked(pace, slow, 60)
    assert eased.rate_per_second == 10
    assert walked(eased, PLENTY, 120).rate_per_second == 1_000
    assert walked(pace, replace(PLENTY, settlement_lag_ms=60_000.0), 1).rate_per_second == 250


@pytest.mark.parametrize(
    ("slow_in_100", "slow_ms", "least", "most"),
    [
        (0, 0.0, 100, 100),
        # Now and then one takes long: that is no load. Halving at each left a quarter of the rate.
        (5, 200.0, 95, 100),
        (10, 200.0, 85, 100),
        # Most of them are slow: there is too much.
        (90, 200.0, 1, 10),
        (100, 110.0, 1, 10),
    ],
)
def test_answers_that_are_slow_by_chance_do_not_ease_the_rate(
    slow_in_100: int, slow_ms: float, least: float, most: float
) -> None:
    chance, pace, rates = Random(7), begin(100, 300, 0), []
    for now in range(200, 120_000, 200):
        took_ms = slow_ms if chance.random() * 100 < slow_in_100 else 30.0
        bought = Counts(passes_given=pace.serving, passes_used=pace.serving, units_taken=pace.serving)
        pace = advance(pace, replace(PLENTY, gate_latency_ms=took_ms, counts=bought), now)
        rates.append(pace.rate_per_second)
    assert least <= sum(rates) / len(rates) <= most


def test_an_operator_sets_the_rate_pauses_and_lets_people_in() -> None:
    pace = walked(begin(100, 300, 0), PLENTY, 1)
    assert walked(with_rate(pace, 10), PLENTY, 10).serving - pace.serving <= 10 * 10 + 10
    faster = with_rate(pace, 1_000)
    assert faster.rate_per_second == 100
    assert walked(faster, PLENTY, 10).rate_per_second == 1_000
    stopped = walked(paused(pace, True), PLENTY, 60)
    assert stopped.serving == pace.serving
    assert advance(admit(stopped, 30), PLENTY, stopped.at + 100).serving == pace.serving + 30
    assert walked(paused(stopped, False), PLENTY, 1).serving == pace.serving + 100


def test_those_let_in_by_hand_wait_for_stock_too() -> None:
    pace = admit(paused(begin(100, 300, 0), True), 30)
    pace = advance(pace, replace(PLENTY, available=10), 100)
    assert (pace.serving, pace.extra) == (10, 20)
    assert advance(pace, PLENTY, 200).serving == 30


counts = st.integers(0, 10**6)
observations = st.builds(
    Observation,
    joined=counts,
    called=counts,
    passes=counts,
    available=st.integers(-5, 10**6),
    gate_latency_ms=st.floats(0, 1e6),
    settlement_lag_ms=st.floats(0, 1e6),
    counts=st.builds(Counts, counts, counts, counts, counts, counts, counts, counts),
)


@given(st.lists(st.tuples(observations, st.integers(-1_000, 10_000)), max_size=30), st.floats(0, 10_000))
def test_whatever_is_observed_the_line_keeps_its_promises(happened: list[tuple[Observation, int]], rate: float) -> None:
    pace = begin(rate, 300, 0)
    for seen, elapsed in happened:
        before, pace = pace, advance(pace, seen, pace.at + elapsed)
        called = pace.serving - before.serving
        assert 0 <= called <= max(0, seen.joined - before.serving)
        assert called <= max(room_for(pace, seen), 1)
        assert called <= rate * (MAX_STEP_MS / 1_000 + MAX_CREDIT_S) + 1
        assert 0 <= pace.rate_per_second <= rate
