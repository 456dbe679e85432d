"""The end of a sale, where chance decides."""

from msgspec.structs import replace
from plan_world import MEASURED, plain

from holdfast.plan.capacity import Capacity
from holdfast.plan.outcome import outcome_of
from holdfast.plan.running import TAIL, simulate
from holdfast.plan.told import series

CARTS = plain(units=200, is_instant=False, pay_s=2.0, hold_s=20.0, abandon=0.1, no_show=0.05)


def test_the_end_is_played_several_times_and_sold_out_each_time_at_another_moment() -> None:
    run = simulate(CARTS, MEASURED["redis"], Capacity(), runs=9)
    assert len(run.ends) == 9
    assert all(end[-1].sold == CARTS.units for end in run.ends)
    assert all(end[0].sold >= TAIL * CARTS.units for end in run.ends)
    assert len({end[-1].at_s for end in run.ends}) > 3
    for end in run.ends:
        assert all(moment.available + moment.held + moment.sold == CARTS.units for moment in end)


def test_the_same_seed_of_chance_makes_the_same_end() -> None:
    first, again = (simulate(CARTS, MEASURED["redis"], Capacity(), runs=3) for _ in range(2))
    assert first == again


def test_the_middle_lies_in_its_range_and_the_last_unit_after_the_others() -> None:
    found = outcome_of(CARTS, simulate(CARTS, MEASURED["redis"], Capacity(), runs=9))
    assert found.sold_out_between_s is not None
    assert found.sold_out_after_s is not None
    low, high = found.sold_out_between_s
    assert low <= found.sold_out_after_s <= high
    assert low < high
    times = [found.fifty_percent_after_s, found.ninety_percent_after_s, found.ninety_nine_percent_after_s]
    assert [*times, found.sold_out_after_s] == sorted([*(at or 0 for at in times), found.sold_out_after_s])


def test_what_is_sold_within_one_step_is_sold_out_then() -> None:
    for units in (1, 3):
        few = plain(units=units)
        found = outcome_of(few, simulate(few, MEASURED["sqlite"], Capacity(), runs=5))
        assert found.sold == units
        assert found.sold_out_after_s == found.ninety_nine_percent_after_s == found.ninety_percent_after_s


def test_what_is_never_sold_has_no_time() -> None:
    few = replace(CARTS, users=100)
    found = outcome_of(few, simulate(few, MEASURED["redis"], Capacity(), runs=3))
    assert found.sold < few.units
    assert (found.sold_out_after_s, found.sold_out_between_s) == (None, None)


def test_the_busiest_second_has_more_than_the_average_of_its_time() -> None:
    found = outcome_of(CARTS, simulate(CARTS, MEASURED["redis"], Capacity()))
    assert found.attempts_per_second_peak < found.busiest_second < 2 * found.attempts_per_second_peak


def test_what_is_plotted_ends_with_the_sale() -> None:
    moments = simulate(replace(CARTS, rate_per_second=1.0), MEASURED["redis"], Capacity()).moments
    # Of which most are no multiple of what is plotted together.
    for count in (1, 239, 481, 725):
        chosen = moments[:count]
        found = series(chosen)
        assert len(chosen) == count
        assert (found["sold"][-1], found["at_s"][-1]) == (chosen[-1].sold, round(chosen[-1].at_s, 1))
        assert len({len(values) for values in found.values()}) == 1
