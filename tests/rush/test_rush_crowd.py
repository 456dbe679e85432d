"""The parts of a rush that need no server: arrivals, behaviour, counts and fairness."""

from collections import Counter
from itertools import combinations, pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import SettingsError
from holdfast.lab.load.latency import Histogram, bucket_of, top_of
from holdfast.lab.rush.buyers.actions import Step
from holdfast.lab.rush.buyers.arrivals import arrivals
from holdfast.lab.rush.buyers.behaviour import BehaviourPlanner, CartAction, QueueBehaviour
from holdfast.lab.rush.buyers.tally import Tally
from holdfast.lab.rush.checks.fairness import QueueEntry, fairness, inversions, overtaken, ranks_of
from holdfast.lab.rush.report.figures import per_second
from holdfast.lab.scenarios.scenario import Shape, built_in_scenarios, load_scenario, parse_scenario

times = st.floats(0, 3_600, allow_nan=False)


@given(st.sampled_from(Shape), st.integers(0, 300), st.floats(0, 100), st.integers(0, 9))
def test_arrivals_are_sorted_and_determined_by_the_seed(shape: Shape, count: int, over_s: float, seed: int) -> None:
    drawn = arrivals(shape, count, over_s, seed)
    assert drawn == sorted(drawn) == arrivals(shape, count, over_s, seed)
    assert len(drawn) == count
    assert all(at >= 0 for at in drawn)
    assert shape is Shape.POISSON or all(at <= over_s for at in drawn)


def test_a_ramp_brings_three_quarters_of_arrivals_in_its_second_half() -> None:
    drawn = arrivals(Shape.RAMP, 10_000, 10.0, 1)
    assert 0.72 < sum(at > 5 for at in drawn) / len(drawn) < 0.78


@pytest.mark.parametrize("name", built_in_scenarios())
def test_behaviour_depends_on_the_seed_and_the_number_alone(name: str) -> None:
    scenario = load_scenario(name)
    forwards = [BehaviourPlanner(scenario, 5).plan(number) for number in range(50)]
    backwards = [BehaviourPlanner(scenario, 5).plan(number) for number in reversed(range(50))]
    assert forwards == backwards[::-1]
    assert forwards != [BehaviourPlanner(scenario, 6).plan(number) for number in range(50)]


def test_behaviour_has_the_frequencies_of_its_scenario() -> None:
    scenario = parse_scenario(
        'name = "x"\n[crowd]\nleave = 0.2\ncome_back = 0.5\nvanish = 0.1\nabandon = 0.3\ngive_back = 0.2\n'
        "most_quantity = 4\n[bots]\nshare = 0.25\n[sale]\nproducts = 4\n",
        "x",
    )
    plans = [BehaviourPlanner(scenario, 1).plan(number) for number in range(4_000)]
    in_line, cart = Counter(plan.in_line for plan in plans), Counter(plan.cart_action for plan in plans)
    assert 0.08 < in_line[QueueBehaviour.LEAVE] / 4_000 < 0.12
    assert 0.08 < in_line[QueueBehaviour.COME_BACK] / 4_000 < 0.12
    assert 0.08 < in_line[QueueBehaviour.VANISH] / 4_000 < 0.12
    assert 0.27 < cart[CartAction.ABANDON] / 4_000 < 0.33
    assert 0.17 < cart[CartAction.GIVE_BACK] / 4_000 < 0.23
    assert 0.22 < sum(plan.bot is not None for plan in plans) / 4_000 < 0.28
    assert {plan.quantity for plan in plans} == {1, 2, 3, 4}
    assert {plan.product for plan in plans} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "missing required field `name`"),
        ('name = "x"\nuser = 3', "unknown field `user`"),
        ('name = "x"\n[crowd]\ndoubleclicks = 0.1', "unknown field `doubleclicks` - at `$.crowd`"),
        ('name = "x"\n[crowd]\nabandon = 1.5', "<= 1.0 - at `$.crowd.abandon`"),
        ('name = "x"\n[crowd]\nabandon = 0.7\ngive_back = 0.7', "abandon + give_back in [crowd]"),
        ('name = "x"\n[arrival]\nshape = "trickle"', "Invalid enum value 'trickle'"),
        ('name = "x"\n[crowd]\nleast_quantity = 3', "least_quantity is more than most_quantity"),
        ('name = "x"\n[sale]\ncheckout = "instant"\npayment = "external"', "needs checkout"),
        ('name = "x"\n[sale.room]\nmode = "lottery"', "needs opens_after_seconds"),
        ('name = "x"\n[bots]\nshare = 0.1\nkinds = []', "no kinds"),
        ("name = ", "x.toml: "),
    ],
)
def test_an_invalid_scenario_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_scenario(text, "x.toml")
    assert says in str(refused.value)
    assert str(refused.value).startswith("x.toml: ")


def test_six_scenarios_are_built_in_and_others_are_read_from_a_file() -> None:
    assert built_in_scenarios() == [
        "crowd",
        "fifty-products",
        "fund-shares",
        "sneaker-drop",
        "ticket-lottery",
        "vouchers",
    ]
    with pytest.raises(SettingsError, match=r"there is no scenario nonsense.*one of: crowd"):
        load_scenario("nonsense")


@given(st.integers(0, 4 * 10**9))
def test_a_bucket_is_no_wider_than_a_thirtysecond_of_its_values(microseconds: int) -> None:
    bucket = bucket_of(microseconds)
    assert microseconds <= top_of(bucket) <= microseconds * (1 + 1 / 32) + 1
    assert bucket_of(top_of(bucket)) == bucket
    assert bucket_of(top_of(bucket) + 1) == bucket + 1


@given(st.lists(times, min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_exact_up_to_the_width_of_a_bucket(noted: list[float], part: float) -> None:
    histogram = Histogram()
    for seconds in noted:
        histogram.record(seconds)
    exact = sorted(noted)[max(0, -int(-part * len(noted) // 1) - 1)] * 1_000
    assert exact * 0.999 - 0.002 <= histogram.quantile_ms(part) <= exact * (1 + 1 / 32) + 0.002


@given(st.lists(st.lists(times, max_size=30), max_size=5))
def test_histograms_of_parts_add_up_to_that_of_the_whole(parts: list[list[float]]) -> None:
    whole, added = Histogram(), Histogram()
    for part in parts:
        one = Histogram()
        for seconds in part:
            one.record(seconds)
            whole.record(seconds)
        added.add(one)
    assert (added.counts, added.total, added.largest) == (whole.counts, whole.total, whole.largest)


@given(st.lists(st.tuples(st.sampled_from(["asked", "granted"]), st.floats(-1, 20)), max_size=50))
def test_partial_tallies_add_up_and_rates_count_everything(noted: list[tuple[str, float]]) -> None:
    whole, received = Tally(), Tally()
    for name, at in noted:
        piece = Tally()
        for tally in (whole, piece):
            tally.count(name, at)
            tally.record(Step.PURCHASE, at, 0.5)
        received.add(msgspec.json.decode(msgspec.json.encode(piece), type=Tally))
    assert received == whole
    for name in ("asked", "granted"):
        assert sum(rate for _, rate in per_second(whole.series.get(name, {}))) == pytest.approx(whole.total(name))


@given(st.lists(st.integers(0, 50), max_size=40))
def test_inversions_are_pairs_in_the_wrong_order(values: list[int]) -> None:
    ranks = ranks_of([float(value) for value in values])
    assert sorted(ranks) == list(range(len(values)))
    assert inversions(ranks) == sum(before > after for before, after in combinations(ranks, 2))
    assert inversions(ranks) == sum(before > after for before, after in combinations(values, 2))


def test_a_queue_is_in_order_and_a_reversed_one_is_not() -> None:
    forwards = fairness((float(n), n + 100.0) for n in range(100))
    backwards = fairness((float(n), 100.0 - n) for n in range(100))
    assert forwards is not None
    assert backwards is not None
    assert (forwards.in_order, forwards.displacement_p99) == (1.0, 0.0)
    assert backwards.in_order == 0.0
    assert fairness([(1.0, 2.0)]) is None


stood = st.builds(
    lambda place, asked, took: QueueEntry(f"at {place}", place, asked, asked + took),
    st.integers(0, 30), st.floats(0, 10), st.floats(0, 3),
)  # fmt: skip


@given(st.lists(stood, max_size=15, unique_by=lambda one: one.place))
def test_a_buyer_behind_somebody_who_came_later_is_detected(line: list[QueueEntry]) -> None:
    wronged = {
        behind.who
        for behind in line
        for ahead in line
        if ahead.place < behind.place and behind.answered_at < ahead.asked_at
    }
    found = overtaken(line)
    assert {who for who, _ in found} == wronged
    by_name = {one.who: one for one in line}
    for behind, ahead in found:
        assert by_name[behind].answered_at < by_name[ahead].asked_at


def test_simultaneous_joins_may_get_either_position() -> None:
    line = [QueueEntry("a", 1, 0.0, 5.0), QueueEntry("b", 0, 4.9, 5.1)]
    assert overtaken(line) == []
    assert all(one.place != other.place for one, other in pairwise(line))
