"""Rates per address and per buyer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.runtime.token_bucket import Policy, is_idle, left_header, take

TEN = Policy("ip", burst=10, every_ms=100)


def test_a_burst_and_then_one_at_a_time() -> None:
    full_at, allowed = 0.0, []
    for now in [1_000] * 12 + [1_099, 1_100, 1_100, 1_350]:
        taken = take(TEN, full_at, now)
        full_at = taken.full_at
        allowed.append(taken.is_allowed)
    assert allowed == [True] * 10 + [False] * 2 + [False, True, False, True]


def test_the_headers_say_what_is_left_and_when_there_is_more() -> None:
    taken = take(Policy("buyer", burst=5, every_ms=2_000), 0, 10_000)
    assert Policy("buyer", burst=5, every_ms=2_000).header == '"buyer";q=5;w=10'
    assert left_header(Policy("buyer", burst=5, every_ms=2_000), taken.remaining, taken.next_ms) == '"buyer";r=4;t=2'


def test_looking_at_stock_is_allowed_once_in_two_seconds() -> None:
    look = Policy("look", burst=1, every_ms=2_000)
    first = take(look, 0, 0)
    early = take(look, first.full_at, 500)
    assert (first.is_allowed, early.is_allowed, early.next_ms) == (True, False, 1_500)
    assert take(look, early.full_at, 2_000).is_allowed


def test_more_than_ever_fits_is_refused() -> None:
    assert not take(TEN, 0, 0, tokens=11).is_allowed


@given(
    st.integers(1, 20),
    st.floats(0.5, 5_000),
    st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 3)), max_size=60),
)
def test_no_more_pass_than_the_burst_and_the_rate_allow(
    burst: int, every_ms: float, calls: list[tuple[int, int]]
) -> None:
    policy, full_at, now, passed = Policy("p", burst, every_ms), 0.0, 1_000, 0
    for elapsed, tokens in calls:
        now += elapsed
        taken = take(policy, full_at, now, tokens)
        full_at = taken.full_at
        passed += tokens if taken.is_allowed else 0
        assert 0 <= taken.remaining <= burst
        assert passed <= burst + (now - 1_000) / every_ms + 1e-6
        # After the announced wait a caller gets in, if what they ask for fits at all.
        if not taken.is_allowed and tokens <= burst:
            assert take(policy, full_at, now + taken.next_ms + 1, tokens).is_allowed
    assert is_idle(full_at, now + int(burst * every_ms) + 1)


@pytest.mark.parametrize("now", [0, 1_000, 37_260_008, 10**10 + 7, 10**12 + 1])
def test_what_is_left_does_not_depend_on_how_long_the_clock_has_run(now: int) -> None:
    policy = Policy("buyer", 15, 1_000 / 3)
    taken = take(policy, 0.0, now)
    assert (taken.remaining, taken.next_ms) == (14, 334)
