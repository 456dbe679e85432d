"""The simulator finds defects: each of these is found by the seed beside it, and without the defect that seed holds.

A change of the product may shift what happens in a run. Then the defect must still be found within SEEDS_MAX runs.
"""

import re
from itertools import chain
from pathlib import Path

import pytest
from mutations import EVERY
from redis_mutations import REDIS
from warming_up import warmed_up  # noqa: F401 - a fixture

from holdfast.lab.simulate.explain import explain
from holdfast.lab.simulate.run import run
from holdfast.lab.simulate.shrink import shrink

SEEDS_MAX = 1_000
# The first seed that finds each.
FOUND_BY = {
    "unknown_outcome_reported_as_refusal": 63,
    "refused_commit_reported_as_success": 9,
    "repeat_taken_for_another_request": 0,
    "key_forgotten": 1,
    "replay_says_sold_out": 45,
    "units_returned_twice": 13,
    "payment_under_way_cancelled": 5,
    "settling_hold_expires": 0,
    "overdue_returned_before_deadline": 2,
    "expirer_gives_up_a_pool": 16,
    "lost_reply_taken_for_decline": 6,
    "lost_reply_taken_for_capture": 24,
    "lost_lookup_taken_for_unknown_payment": 24,
    "charged_under_a_new_key": 0,
    "order_not_written": 14,
    "wallet_not_debited": 1,
    "lease_never_ends": 23,
    "failed_settlement_dropped": 68,
    "clock_step_believed": 262,
    "start_believes_the_store": 41,
    "ledger_not_compared": 84,
    "charges_not_looked_for": 40,
    "place_not_stored": 0,
    "called_too_fast": 202,
    "pass_before_the_call": 0,
    "relay_marks_ahead": 1,
    "timeout_taken_for_delivery": 251,
}


FOUND_BY_REDIS = {
    "manifest_not_checked": 3,
    "trimmed_before_it_is_stored": 6,
}


def finding_seed(name: str, engine: str = "sql") -> int | None:
    first = (FOUND_BY | FOUND_BY_REDIS)[name]
    with pytest.MonkeyPatch.context() as patch:
        (EVERY | REDIS)[name](patch)
        return next((seed for seed in chain([first], range(SEEDS_MAX)) if not run(seed, engine=engine).ok), None)


def test_every_defect_has_a_seed() -> None:
    assert FOUND_BY.keys() == EVERY.keys()
    assert FOUND_BY_REDIS.keys() == REDIS.keys()


def test_the_docs_name_the_seeds_that_find_a_defect() -> None:
    rows = re.findall(r"\| `(\w+)` \| (?:sql|redis) \| (\d+) \|", Path("docs/SIMULATOR.md").read_text())
    assert len(rows) >= 12
    assert {name: int(seed) for name, seed in rows}.items() <= (FOUND_BY | FOUND_BY_REDIS).items()


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUND_BY)
def test_a_defect_is_found(name: str) -> None:
    seed = finding_seed(name)
    assert seed is not None
    assert run(seed).ok


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUND_BY_REDIS)
def test_a_defect_of_the_gate_in_redis_is_found(name: str) -> None:
    seed = finding_seed(name, "redis")
    assert seed is not None
    assert run(seed, engine="redis").ok


def test_a_failure_is_shown_with_the_faults_it_needs() -> None:
    # A short sale with few faults: each is left out in turn.
    name = "refused_commit_reported_as_success"
    seed = finding_seed(name)
    assert seed is not None
    with pytest.MonkeyPatch.context() as patch:
        EVERY[name](patch)
        failed = run(seed)
        report = shrink(failed, lambda faults: run(seed, faults))
        assert not run(seed, report.faults).ok
        assert run(seed, []).ok
    assert 1 <= len(report.faults) < len(failed.faults)
    shown = explain(report, "sql")
    assert failed.violations[0].invariant in shown
    assert all(str(fault) in shown for fault in report.faults)
    assert f"holdfast simulate --seed {seed} --engine sql" in shown
