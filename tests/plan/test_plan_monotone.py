"""How more buyers and more hardware change the outcome."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from plan_sales import MEASURED, outcome, plain

from holdfast.lab.plan.capacity import Deployment, capacity_of
from holdfast.lab.plan.facts import Facts, Payment
from holdfast.lab.plan.plan import Existing, make_plan
from profiles import examples

# A longer queue polls less often, so called buyers show up some steps later.
LOOKED_LATER_S = 1.0

sales = st.builds(
    plain,
    users=st.integers(500, 5_000),
    units=st.integers(50, 400),
    engine=st.sampled_from(["postgres", "redis"]),
    over_s=st.sampled_from([0.0, 5.0]),
    rate_per_second=st.sampled_from([100.0, 2_000.0]),
    no_show=st.sampled_from([0.0, 0.2]),
    is_instant=st.booleans(),
    hold_s=st.just(10.0),
    pay_s=st.just(2.0),
    abandon=st.sampled_from([0.0, 0.1]),
    payment=st.sampled_from(Payment),
    provider_s=st.sampled_from([0.0, 2.0]),
)


@examples(15, all_=100)
@given(sales, st.integers(2, 4))
def test_more_buyers_never_shorten_the_queue_or_the_wait(facts: Facts, times: int) -> None:
    few, many = outcome(facts), outcome(replace(facts, users=facts.users * times))
    assert many.longest_line >= few.longest_line
    assert few.admission_wait is not None
    assert many.admission_wait is not None
    assert many.admission_wait.p50 >= few.admission_wait.p50 - LOOKED_LATER_S


@examples(15, all_=100)
@given(sales)
def test_more_hardware_never_sells_more_slowly(facts: Facts) -> None:
    figures = MEASURED[facts.engine]
    sites = [Deployment(api=n, shards=n, workers=n) for n in (1, 2, 8)]
    found = [outcome(facts, capacity_of(site, facts, figures)) for site in sites]
    times = [one.ninety_percent_after_s for one in found]
    for fewer, more in pairwise(times):
        assert fewer is not None
        assert more is not None
        assert more <= fewer * 1.02 + LOOKED_LATER_S


def test_slow_workers_delay_the_sale_and_more_of_them_help() -> None:
    facts = plain(units=8_000, rate_per_second=2_000.0, payment=Payment.CARD, provider_s=2.0)
    outcomes = [make_plan(facts, MEASURED["redis"], Existing(workers=n)).outcome for n in (1, 2, 4)]
    times = [found.sold_out_after_s for found in outcomes if found.sold_out_after_s is not None]
    assert len(times) == 3
    assert times == sorted(times, reverse=True)
    # 256 payments at once, two seconds each: 128 orders per second and worker.
    assert times[0] == pytest.approx(8_000 / 128, rel=0.15)


@pytest.mark.parametrize("engine", sorted(MEASURED))
def test_the_planned_hardware_has_the_requested_headroom(engine: str) -> None:
    plan = make_plan(plain(engine=engine, over_s=5.0, rate_per_second=1_000.0), MEASURED[engine], headroom=0.5)
    assert all(tier.used <= 0.5 for tier in plan.tiers if tier.can_grow)
    assert all(tier.given == 1 for tier in plan.tiers if not tier.can_grow)


def test_the_bottleneck_is_the_tier_nearest_to_its_limit() -> None:
    too_many = MEASURED["redis"].line.per_second * 2
    facts = plain(users=round(too_many * 10), over_s=10.0)
    plan = make_plan(facts, MEASURED["redis"])
    assert plan.bottleneck.name == "line"
    assert plan.bottleneck.breaks_at == pytest.approx(MEASURED["redis"].line.per_second)
    assert not plan.bottleneck.is_enough
    assert make_plan(plain(over_s=10.0), MEASURED["redis"], Existing(workers=1)).bottleneck.is_enough


def test_without_an_edge_cache_the_servers_carry_the_polls() -> None:
    facts = plain(users=50_000, over_s=10.0)
    with_, without = (make_plan(replace(facts, has_edge=one), MEASURED["redis"]) for one in (True, False))
    assert without.deployment.api >= with_.deployment.api
    assert "edge" in [tier.name for tier in with_.tiers]
    assert "edge" not in [tier.name for tier in without.tiers]
