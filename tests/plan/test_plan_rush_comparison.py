"""A plan compared with a rush: the same sale, and how far they are apart."""

import json
from pathlib import Path
from typing import Any

import pytest
from plan_sales import MEASURED

from holdfast.errors import SettingsError
from holdfast.lab.plan.facts import Payment
from holdfast.lab.plan.rush_comparison import Comparison, compare, plan_rush, read_rush, rush_facts
from holdfast.lab.scenarios.scenario import as_json_object, built_in_scenarios, load_scenario


def rush(path: Path, scenario: str = "sneaker-drop", engine: str | None = "sqlite", **figures: Any) -> Path:
    measured: dict[str, Any] = {
        "users": 600,
        "units": 150,
        "sold": 150,
        "sold_out_after_s": 33.0,
        "attempts": 471,
        "refusals": {"admission_required": 222, "unauthorized": 12},
        "wait_s": {"p50": 3.0, "p90": 12.0, "p99": 30.0, "max": 31.0},
    }
    output = {
        "ok": True,
        "figures": measured | figures,
        "engine": engine,
        "scenario": as_json_object(load_scenario(scenario)),
    }
    path.write_text(json.dumps(output))
    return path


@pytest.mark.parametrize("scenario", built_in_scenarios())
def test_every_built_in_rush_can_be_planned(scenario: str, tmp_path: Path) -> None:
    rushed = read_rush(rush(tmp_path / "rush.json", scenario))
    facts = rush_facts(rushed)
    facts.check()
    assert 0 < facts.users <= 600
    plan = plan_rush(rushed, MEASURED["sqlite"], 0.3)
    assert plan.outcome.sold == 150
    assert all(tier.given == 1 for tier in plan.tiers)
    # Outside Redis mode the server of a rush settles orders itself.
    assert "workers" not in [tier.name for tier in plan.tiers]


def test_the_facts_of_a_rush_are_those_of_its_scenario(tmp_path: Path) -> None:
    facts = rush_facts(read_rush(rush(tmp_path / "rush.json")))
    # One in twenty is a bot, and two of three kinds must be refused.
    assert facts.users == 580
    assert (facts.units, facts.engine, facts.payment, facts.hold_s) == (150, "sqlite", Payment.CARD, 15)
    assert facts.no_show == pytest.approx(0.03 + 0.03)
    # Half of these bots hammer 24 times, the others forge four times.
    assert facts.refused_each == pytest.approx(14 * (0.05 * 2 / 3) / (1 - 0.05 * 2 / 3))
    assert facts.attempts_each == pytest.approx(1.25)


def test_predicted_and_measured_are_compared_without_bots(tmp_path: Path) -> None:
    rushed = read_rush(rush(tmp_path / "rush.json"))
    found = {one.name: one for one in compare(rushed, plan_rush(rushed, MEASURED["sqlite"], 0.3))}
    assert list(found) == [
        "50_percent_after", "90_percent_after", "99_percent_after", "sold_out_after", "sold", "attempts",
        "purchases_at_most", "longest_line", "wait_p50", "wait_p90",
    ]  # fmt: skip
    assert found["attempts"].measured == 471 - 222 - 12
    assert found["sold"].deviation == 0
    # Figures that an older rush did not report are not compared.
    assert found["90_percent_after"].is_within is None
    assert found["attempts"].is_within


@pytest.mark.parametrize(
    ("predicted", "measured", "deviation", "is_within"),
    [(12.0, 10.0, 0.2, True), (7.9, 10.0, -0.21, False), (None, 10.0, None, None), (5.0, None, None, None)],
)
def test_a_deviation_is_relative_to_the_measurement(
    predicted: float | None, measured: float | None, deviation: float | None, is_within: bool | None
) -> None:
    one = Comparison("x", "s", predicted, measured)
    assert one.body()["deviation"] == (None if deviation is None else pytest.approx(deviation))
    assert one.is_within is is_within


@pytest.mark.parametrize(("measured", "is_within"), [(70.0, True), (131.0, False), (49.0, False), (119.0, True)])
def test_a_random_result_may_be_anywhere_in_its_range(measured: float, is_within: bool) -> None:
    one = Comparison("sold_out_after", "s", 80.0, measured, (60.0, 130.0))
    assert one.is_within is is_within
    assert one.is_in_range is is_within


def test_a_rush_without_waits_is_compared_without_them(tmp_path: Path) -> None:
    rushed = read_rush(rush(tmp_path / "rush.json", wait_s=None))
    assert "wait_p50" not in [one.name for one in compare(rushed, plan_rush(rushed, MEASURED["sqlite"], 0.3))]


def test_a_rush_on_an_unknown_server_cannot_be_planned(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="what it runs on is not known"):
        rush_facts(read_rush(rush(tmp_path / "rush.json", engine=None)))
