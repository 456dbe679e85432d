"""The simulated sale: invariants of every step, and outcomes that can be calculated by hand."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_sales import MEASURED, outcome, plain

from holdfast.lab.plan.capacity import Capacity
from holdfast.lab.plan.facts import Facts, Payment
from holdfast.lab.plan.simulation import Simulation
from holdfast.lab.scenarios.scenario import Shape

STEPS = 400

sales = st.builds(
    Facts,
    users=st.integers(1, 20_000),
    units=st.integers(1, 2_000),
    engine=st.sampled_from(sorted(MEASURED)),
    shape=st.sampled_from(Shape),
    over_s=st.sampled_from([0.0, 5.0, 30.0]),
    opens_after_s=st.sampled_from([0.0, 3.0]),
    has_room=st.booleans(),
    rate_per_second=st.sampled_from([20.0, 500.0]),
    pass_s=st.sampled_from([4.0, 60.0]),
    no_show=st.floats(0, 1),
    conversion=st.floats(0.1, 1),
    quantity=st.floats(1, 5),
    is_instant=st.booleans(),
    hold_s=st.sampled_from([5.0, 30.0]),
    abandon=st.floats(0, 1),
    pay_s=st.sampled_from([0.0, 3.0, 60.0]),
    declines=st.floats(0, 1),
    payment=st.sampled_from(Payment),
)
machines = st.builds(
    Capacity,
    api=st.sampled_from([0.01, 1.0, 1e12]),
    line=st.sampled_from([50.0, 1e12]),
    gate=st.sampled_from([20.0, 1e12]),
    orders=st.sampled_from([5.0, 1e12]),
)


@given(sales, machines)
def test_units_and_people_are_conserved_at_every_step(facts: Facts, capacity: Capacity) -> None:
    simulation = Simulation(facts, MEASURED[facts.engine], capacity, 0.2)
    before = simulation.step()
    for _ in range(STEPS):
        snapshot = simulation.step()
        assert snapshot.available + snapshot.held + snapshot.sold == facts.units
        assert min(snapshot.available, snapshot.held, snapshot.waiting, snapshot.joining) >= 0
        assert snapshot.called <= snapshot.joined <= snapshot.arrived <= facts.users
        assert (snapshot.sold, snapshot.called, snapshot.arrived) >= (before.sold, before.called, before.arrived)
        on_the_way = simulation.joining + simulation.waiting + simulation.inside
        assert on_the_way + simulation.gone + simulation._used == snapshot.arrived
        before = snapshot


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        # A thousand units at a hundred called per second, who show up within seconds.
        ({}, 10),
        ({"rate_per_second": 50.0}, 20),
        ({"quantity": 2.0}, 5),
        # Half do not show up, so twice as many must be called.
        ({"no_show": 0.5, "pass_s": 4.0}, 20),
        # Counted from the opening, although people joined before it.
        ({"opens_after_s": 30.0}, 10),
        # No queue: everyone tries at once.
        ({"has_room": False}, 0),
    ],
)
def test_a_plain_sale_lasts_as_long_as_its_queue_is_called(changes: dict[str, Any], seconds: float) -> None:
    found = outcome(plain(**changes))
    assert found.sold == 1_000
    assert found.sold_out_after_s is not None
    assert seconds <= found.sold_out_after_s <= seconds + 6


def test_a_cart_that_is_abandoned_delays_its_unit_by_its_hold() -> None:
    found = outcome(plain(is_instant=False, pay_s=0.0, hold_s=60.0, abandon=0.1, rate_per_second=1_000.0))
    assert found.ninety_percent_after_s is not None
    assert found.sold_out_after_s is not None
    assert found.ninety_percent_after_s < 10
    # A tenth of a tenth is left after each round: three rounds for a thousand.
    assert 120 <= found.sold_out_after_s <= 260


@pytest.mark.parametrize(("orders", "seconds"), [(10.0, 100), (50.0, 20)])
def test_slow_settlement_delays_the_sale(orders: float, seconds: float) -> None:
    found = outcome(plain(rate_per_second=1_000.0), Capacity(orders=orders))
    assert found.sold_out_after_s is not None
    assert found.sold_out_after_s == pytest.approx(seconds, rel=0.15)


def test_one_gate_decides_about_purchases_and_payments_together() -> None:
    facts = plain(is_instant=False, pay_s=0.0, payment=Payment.EXTERNAL, rate_per_second=1_000.0)
    found = outcome(facts, Capacity(gate=50.0))
    # Two decisions for each of a thousand buyers.
    assert found.sold_out_after_s is not None
    assert found.sold_out_after_s == pytest.approx(40, rel=0.15)


def test_a_slow_queue_delays_joins() -> None:
    found = outcome(plain(units=10_000, rate_per_second=5_000.0), Capacity(line=1_000.0))
    assert found.most_trying_to_join > 8_000
    # Each counts twice: on joining, and on claiming the pass.
    assert 15 <= found.joined_last_after_s <= 21


def test_with_more_units_than_buyers_everyone_is_served() -> None:
    found = outcome(plain(users=500))
    assert (found.sold, found.called, found.sold_out_after_s) == (500, 500, None)


def test_a_sale_that_closes_leaves_the_rest_unsold() -> None:
    found = outcome(plain(window_s=4.0))
    assert 0 < found.sold < 1_000
    assert found.ended_after_s == pytest.approx(4.0, abs=0.3)


def test_without_a_queue_everyone_tries_and_most_are_refused() -> None:
    found = outcome(plain(has_room=False, is_instant=False, hold_s=30.0, pay_s=5.0, abandon=0.2))
    assert found.attempts > 50_000
    assert found.attempts_per_second_peak >= 10_000
    assert (found.longest_line, found.admission_wait) == (0, None)


def test_a_million_attempts_per_second_and_ten_million_waiting_are_simulated() -> None:
    facts = plain(users=10_000_000, units=20_000, over_s=10.0, rate_per_second=2_000.0)
    found = outcome(facts)
    assert found.sold == 20_000
    assert found.longest_line > 9_000_000
