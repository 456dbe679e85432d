"""A crowd in front of a real edge: nginx with our configuration, two API processes, a worker and a ledger."""

import asyncio
from collections.abc import Iterator
from shutil import which

import pytest
from msgspec.structs import replace

from holdfast.lab.rush.report.figures import body
from holdfast.lab.rush.report.html_report import report
from holdfast.lab.rush.run import Options, RushResult, run_rush
from holdfast.lab.rush.server.target import Installation, Target, start_target
from holdfast.lab.scenarios.scenario import load_scenario
from holdfast.settings import load_settings

USERS, UNITS = 1_500, 60

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    if which("nginx") is None:
        pytest.fail("nginx is missing: make edge-tools")
    installation = Installation("postgres", needs_sandbox=True, has_edge=True, api_processes=2)
    with start_target(installation, load_settings()) as target:
        yield target


@pytest.fixture(scope="module")
def rushed(target: Target) -> RushResult:
    crowd = load_scenario("crowd")
    sale = replace(crowd.sale, hold_seconds=4, opens_after_seconds=1)
    calmer = replace(crowd.crowd, think_seconds=0.2, patience_seconds=5)
    arrival = replace(crowd.arrival, over_seconds=5)
    scenario = replace(crowd, sale=sale, crowd=calmer, arrival=arrival)
    return asyncio.run(run_rush(target, Options(scenario, USERS, UNITS, 5, processes=2)))


def test_a_crowd_at_an_edge_passes_and_everybody_is_accounted_for(rushed: RushResult) -> None:
    assert {one.name: one.examples for one in rushed.findings if not one.ok} == {}
    assert {"all_accounted", "edge_account_true", "ledger_proven"} <= {one.name for one in rushed.findings}
    figures = body(rushed)["figures"]
    assert figures["sold"] == UNITS
    assert sum(figures["endings"].values()) == USERS
    assert sum(figures["edge"]["buyers"].values()) == USERS


def test_the_figures_say_where_the_crowd_was_answered(rushed: RushResult) -> None:
    edge = body(rushed)["figures"]["edge"]
    assert sum(edge["requests"].values()) == sum(body(rushed)["figures"]["responses"].values())
    # Whoever looks is answered from the cache, but for about one request a second.
    looks = {name: sum(edge["requests_by_step"][step][name] for step in ("open", "now")) for name in edge["requests"]}
    assert looks["origin"] <= 4 * (rushed.ended_s + 2)
    assert looks["edge_cache"] > looks["origin"]
    # Those with forged passes never get past the edge.
    assert edge["requests"]["edge_refusal"] > 0
    assert edge["origin_answered"] >= edge["requests"]["origin"] - 1


def test_the_report_says_it_too(rushed: RushResult) -> None:
    page = report(rushed)
    assert "Where buyers were answered" in page
    assert "Where requests were answered" in page
    assert "edge refusal" in page
