"""The time of a store: steady, corrected by small steps, and not by large ones until a second source agrees."""

import pytest

from holdfast.runtime.engine_clock import CONFIRMED_AFTER_MS, STEP_MS, EngineClock

NOW = 1_700_000_000_000
HOUR = 3_600_000
LARGE = [HOUR, -HOUR, 25 * HOUR, -25 * HOUR, STEP_MS + 1, -STEP_MS - 1]


class Clocks:
    """True time, and how far the clocks of the store and of this host are off."""

    def __init__(self, decided_at: int = 0, *, store_off: int = 0, host_off: int = 0) -> None:
        self.elapsed, self.store_off, self.host_off = 5_000, store_off, host_off
        self.clock = EngineClock("store", elapsed=lambda: self.elapsed, wall=lambda: self.true_now + self.host_off)
        self.clock.start(self.reading, decided_at)

    @property
    def true_now(self) -> int:
        return NOW + self.elapsed

    @property
    def reading(self) -> int:
        return self.true_now + self.store_off

    @property
    def off(self) -> int:
        """How far our own clock is off."""
        now = self.clock.now_ms()
        assert now is not None
        return now - self.true_now

    def read(self, after_ms: int = 1_000, *, request_ms: int = 0, reply_ms: int = 0) -> None:
        self.elapsed += after_ms
        asked_at = self.elapsed
        self.elapsed += request_ms
        reading = self.reading
        self.elapsed += reply_ms
        self.clock.correct(reading, asked_at)


@pytest.mark.parametrize("ahead_s", [6, 30, 59, 3_600])
def test_a_store_set_ahead_during_a_sale_is_not_believed_at_a_start(ahead_s: int) -> None:
    clocks = Clocks(decided_at=NOW + 4_000, store_off=ahead_s * 1_000)
    assert (clocks.off, clocks.clock.stepped_ms) == (0, ahead_s * 1_000)


def test_a_host_set_ahead_during_a_sale_is_not_believed_at_a_start() -> None:
    assert Clocks(decided_at=NOW + 4_000, host_off=30_000).off == 0


def test_it_starts_by_the_stores_clock_and_counts_elapsed_time() -> None:
    clocks = Clocks(store_off=500)
    clocks.elapsed += HOUR
    assert clocks.off == 500


@pytest.mark.parametrize(("request_ms", "reply_ms"), [(900, 0), (0, 900), (3_000, 1_000)])
def test_a_slow_reading_changes_nothing(request_ms: int, reply_ms: int) -> None:
    clocks = Clocks()
    clocks.read(request_ms=request_ms, reply_ms=reply_ms)
    assert (clocks.off, clocks.clock.stepped_ms) == (0, 0)


@pytest.mark.parametrize("off", [1, -1, STEP_MS, -STEP_MS])
def test_a_small_difference_is_followed(off: int) -> None:
    clocks = Clocks()
    clocks.store_off = off
    clocks.read()
    assert (clocks.off, clocks.clock.stepped_ms) == (off, 0)


@pytest.mark.parametrize("off", LARGE)
def test_a_step_is_not_followed_and_reported_until_it_is_undone(off: int) -> None:
    clocks = Clocks()
    clocks.store_off = off
    for _ in range(2 * CONFIRMED_AFTER_MS // 1_000):
        clocks.read()
        assert (clocks.off, clocks.clock.stepped_ms) == (0, off)
    clocks.store_off = 0
    clocks.read()
    assert (clocks.off, clocks.clock.stepped_ms) == (0, 0)


@pytest.mark.parametrize("off", LARGE)
def test_a_step_is_adopted_when_this_hosts_clock_has_confirmed_it_for_long_enough(off: int) -> None:
    clocks = Clocks()
    clocks.store_off = clocks.host_off = off
    clocks.read()
    clocks.read(CONFIRMED_AFTER_MS - 1)
    assert (clocks.off, clocks.clock.stepped_ms) == (0, off)
    clocks.read(1)
    assert (clocks.off, clocks.clock.stepped_ms) == (off, 0)


def test_a_confirmation_counts_only_while_it_lasts() -> None:
    clocks = Clocks()
    clocks.store_off = HOUR
    for host_off in (HOUR, 0, HOUR):
        clocks.host_off = host_off
        clocks.read(CONFIRMED_AFTER_MS - 1)
    assert clocks.off == 0


@pytest.mark.parametrize("off", LARGE[:4])
@pytest.mark.parametrize("decided_ms_ago", [0, 30_000])
def test_a_process_that_starts_during_a_step_continues_from_the_last_decision(off: int, decided_ms_ago: int) -> None:
    clocks = Clocks(NOW + 5_000 - decided_ms_ago, store_off=off)
    assert (clocks.off, clocks.clock.stepped_ms) == (0, off)


@pytest.mark.parametrize("host_off", [HOUR, -HOUR, 30_000, -30_000])
# Not 30 s: the host would then be exactly as late as the last decision, which nobody can tell from a store set ahead.
@pytest.mark.parametrize("decided_ms_ago", [0, 20_000, 40_000, 10 * HOUR])
def test_a_host_whose_own_clock_is_wrong_starts_by_the_stores(host_off: int, decided_ms_ago: int) -> None:
    clocks = Clocks(NOW + 5_000 - decided_ms_ago, host_off=host_off)
    assert (clocks.off, clocks.clock.stepped_ms) == (0, 0)
