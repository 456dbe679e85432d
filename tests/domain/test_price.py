"""The price of coming in follows demand, up to what a phone can pay."""

import pytest

from holdfast.domain.sale.price import MOST_ATTEMPTS, ROUNDS, Demand, attempts_for


@pytest.mark.parametrize(
    ("solved_per_second", "attempts"),
    [(0, 100), (50, 100), (100, 100), (200, 200), (1_000, 1_000), (10_000, MOST_ATTEMPTS)],
)
def test_the_price_rises_with_those_who_come_above_what_the_room_lets_in(solved_per_second: int, attempts: int) -> None:
    assert attempts_for(100, solved_per_second, rate_per_second=100) == attempts


def test_no_sale_can_ask_for_more_than_a_phone_can_pay_in_two_seconds() -> None:
    assert attempts_for(10**9, 0, 1) == MOST_ATTEMPTS
    # What phones of some years do, with a browser's own PBKDF2, is a million rounds and more per second.
    assert MOST_ATTEMPTS * ROUNDS <= 2 * 1_000_000


def test_demand_is_what_was_solved_lately() -> None:
    demand = Demand()
    for n in range(2_000):
        demand.note(n / 100)
    assert demand.per_second(20.0) == pytest.approx(100, rel=0.05)
    assert demand.per_second(60.0) < 1
