"""The end of a sale, where chance decides."""

from msgspec.structs import replace
from plan_sales import MEASURED, plain

from holdfast.lab.plan.capacity import Capacity
from holdfast.lab.plan.outcome import outcome_of
from holdfast.lab.plan.report_text import series
from holdfast.lab.plan.simulation_runs import TAIL, simulate

CARTS = plain(units=200, is_instant=False, pay_s=2.0, hold_s=20.0, abandon=0.1, no_show=0.05)


def test_the_end_is_simulated_several_times_with_different_results() -> None:
    run = simulate(CARTS, MEASURED["redis"], Capacity(), runs=9)
    assert len(run.ends) == 9
    assert all(end[-1].sold == CARTS.units for end in run.ends)
    assert all(end[0].sold >= TAIL * CARTS.units for end in run.ends)
    assert len({end[-1].at_s for end in run.ends}) > 3
    for end in run.ends:
        assert all(snapshot.available + snapshot.held + snapshot.sold == CARTS.units for snapshot in end)


def test_the_same_seed_gives_the_same_end() -> None:
    first, again = (simulate(CARTS, MEASURED["redis"], Capacity(), runs=3) for _ in range(2))
    assert first == again


def test_the_median_is_in_its_range_and_the_last_unit_sells_last() -> None:
    found = outcome_of(CARTS, simulate(CARTS, MEASURED["redis"], Capacity(), runs=9))
    assert found.sold_out_between_s is not None
    assert found.sold_out_after_s is not None
    low, high = found.sold_out_between_s
    assert low <= found.sold_out_after_s <= high
    assert low < high
    times = [found.fifty_percent_after_s, found.ninety_percent_after_s, found.ninety_nine_percent_after_s]
    assert [*times, found.sold_out_after_s] == sorted([*(at or 0 for at in times), found.sold_out_after_s])


def test_units_sold_within_one_step_are_sold_out_then() -> None:
    for units in (1, 3):
        few = plain(units=units)
        found = outcome_of(few, simulate(few, MEASURED["sqlite"], Capacity(), runs=5))
        assert found.sold == units
        assert found.sold_out_after_s == found.ninety_nine_percent_after_s == found.ninety_percent_after_s


def test_units_that_are_never_sold_have_no_time() -> None:
    few = replace(CARTS, users=100)
    found = outcome_of(few, simulate(few, MEASURED["redis"], Capacity(), runs=3))
    assert found.sold < few.units
    assert (found.sold_out_after_s, found.sold_out_between_s) == (None, None)


def test_the_busiest_second_exceeds_the_average() -> None:
    found = outcome_of(CARTS, simulate(CARTS, MEASURED["redis"], Capacity()))
    assert found.attempts_per_second_peak < found.busiest_second < 2 * found.attempts_per_second_peak


def test_the_plotted_series_ends_with_the_sale() -> None:
    snapshots = simulate(replace(CARTS, rate_per_second=1.0), MEASURED["redis"], Capacity()).snapshots
    # Most of these are not multiples of the plotted interval.
    for count in (1, 239, 481, 725):
        chosen = snapshots[:count]
        found = series(chosen)
        assert len(chosen) == count
        assert (found["sold"][-1], found["at_s"][-1]) == (chosen[-1].sold, round(chosen[-1].at_s, 1))
        assert len({len(values) for values in found.values()}) == 1
