"""The concurrency limit in front of a simulated server: goodput stays flat, and important requests go first."""

from functools import cache

import pytest
from overload_model import CAPACITY, Server

from holdfast.runtime.concurrency_limit import LEAST, MOST, PARTS, Limiter, Priority

SECONDS = 15
SEED = 1


@cache
def loaded(load: float, is_limited: bool = True) -> Server:
    print(f"load {load}, seed {SEED}")
    return Server(load, SEED, is_limited=is_limited).run(SECONDS)


def test_goodput_at_ten_times_the_load_stays_near_the_peak() -> None:
    peak = max(loaded(load).per_second(SECONDS) for load in (0.8, 1.0, 1.5))
    assert peak > 0.9 * CAPACITY * 1_000
    assert loaded(10).per_second(SECONDS) > 0.8 * peak


def test_without_the_limit_goodput_collapses() -> None:
    """The control: without the limit, the simulated server collapses."""
    assert loaded(2, is_limited=False).per_second(SECONDS) < 0.1 * CAPACITY * 1_000


def test_responses_stay_fast_under_overload() -> None:
    took = sorted(loaded(10).took_ms)
    assert took[len(took) // 2] < 40
    assert took[int(len(took) * 0.99)] < 100


def test_nothing_is_refused_at_low_load() -> None:
    server = loaded(0.5)
    assert sum(server.served.values()) == pytest.approx(sum(server.asked.values()), rel=0.01)


@pytest.mark.parametrize("load", [2.0, 10.0])
def test_important_requests_are_served_first(load: float) -> None:
    server = loaded(load)
    shares = [round(server.served[priority] / server.asked[priority], 3) for priority in Priority]
    assert shares == sorted(shares, reverse=True)
    assert shares[Priority.FINISH] > 0.9
    assert shares[Priority.CONSOLE] < 0.1


def test_no_kind_exceeds_its_share_in_flight() -> None:
    limiter = Limiter(100)
    for priority in reversed(Priority):
        while limiter.enter(priority):
            pass
        assert limiter.in_flight == min(100 * PARTS[priority], MOST)
    assert limiter.in_flight == MOST, "requests that finish what was begun"


def test_the_limit_grows_with_fast_responses_and_shrinks_with_slow_ones() -> None:
    limiter = Limiter(50)
    now = fill(limiter, 10.0, 0.0, windows=90)
    grown = limiter.limit
    assert 1_000 < grown <= MOST
    now = fill(limiter, 200.0, now, windows=5)
    assert limiter.limit < grown / 10
    fill(limiter, 100_000.0, now, windows=2)
    assert limiter.limit >= LEAST


def test_the_minimum_limit_is_never_refused_however_slow_it_is() -> None:
    limits = {}
    for least in (LEAST, 40):
        limiter = Limiter(50, least=least)
        now = fill(limiter, 10.0, 0.0, windows=5)
        fill(limiter, 100_000.0, now, windows=30)
        limits[least] = limiter.limit
    assert limits[LEAST] < 40 <= limits[40]


def test_a_permanently_slower_machine_is_noticed_in_time() -> None:
    limiter = Limiter(50)
    now = fill(limiter, 10.0, 0.0, windows=50)
    now = fill(limiter, 40.0, now, windows=20)
    assert limiter.limit == LEAST
    fill(limiter, 40.0, now, windows=120)
    assert limiter.limit > 100


def fill(limiter: Limiter, took_ms: float, now: float, windows: int) -> float:
    """As many as fit, repeatedly, each taking the same time."""
    for _ in range(windows):
        entered = sum(limiter.enter(Priority.FINISH) for _ in range(int(limiter.limit) + 1))
        now += 100
        for _ in range(max(entered, 10)):
            limiter.in_flight += max(0, 1 - limiter.in_flight)
            limiter.leave(took_ms, now)
    return now
