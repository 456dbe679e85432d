"""A breaker: opens after failures in a row, tries again with one call, closes by a success."""

from holdfast.runtime.breaker import Breaker, Circuit


def opened(**more: float) -> Breaker:
    breaker = Breaker("store", failures_max=3, **more)
    for _ in range(3):
        breaker.failed(0)
    return breaker


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    breaker = Breaker("store", failures_max=3)
    for _ in range(10):
        breaker.failed(0)
        breaker.failed(0)
        breaker.succeeded()
    assert breaker.is_closed
    assert not opened().is_closed


def test_open_it_lets_nobody_through_before_its_time_and_then_one() -> None:
    breaker = opened(least_pause_ms=100)
    assert [breaker.allows(now) for now in (0, 99, 100, 101, 500)] == [False, False, True, False, False]
    assert breaker.state is Circuit.HALF_OPEN


def test_a_success_closes_it_and_a_failure_makes_the_pause_longer_up_to_a_limit() -> None:
    breaker = opened(least_pause_ms=100, most_pause_ms=300)
    now, pauses = 0.0, []
    for _ in range(4):
        began = now
        while not breaker.allows(now):
            now += 1
        pauses.append(now - began)
        breaker.failed(now)
    assert pauses == [100, 200, 300, 300]
    assert breaker.allows(now + 300)
    breaker.succeeded()
    assert breaker.allows(now + 300)


def test_a_probe_whose_caller_left_is_followed_by_another() -> None:
    breaker = opened(least_pause_ms=100)
    assert breaker.allows(100)
    breaker.withdrawn()
    assert breaker.allows(101)
