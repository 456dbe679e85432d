"""`holdfast plan`: output and refusals."""

import json
from typing import Any

import pytest
from cli_running import Here

from holdfast.lab.scenarios.scenario import as_json_object, load_scenario

pytest_plugins = ("cli_fixtures",)

SMALL = ("plan", "--users", "1000", "--units", "200", "--seconds", "5", "--hold-seconds", "20", "--pay-seconds", "5")
TIERS = ["edge", "API", "line", "Redis", "PostgreSQL", "workers"]


def rush(**figures: Any) -> str:
    measured = {"users": 600, "units": 150, "sold": 150, "sold_out_after_s": 40.0, "attempts": 222}
    shown = {
        "figures": measured | {"attempts_per_second": 6.0, "refusals": {}} | figures,
        "engine": "sqlite",
        "scenario": as_json_object(load_scenario("sneaker-drop")),
    }
    return json.dumps(shown)


@pytest.mark.slow
def test_a_forecast_fits_into_80_columns(here: Here) -> None:
    ran = here("plan", "--users", "1000000", "--units", "10000")
    assert ran.code == 0
    assert max(map(len, ran.lines)) <= 80
    for said in (
        "half sold after",
        "sold out after",
        "longest line",
        "wait p50/p90/p99",
        "Bottleneck:",
        "Assumptions:",
        *TIERS,
    ):
        assert said in ran.out
    assert "█" in ran.out
    # Each figure names its benchmark, or that there is none.
    assert "holdfast bench, 20" in ran.out
    assert "no bench has it" in ran.out


def test_every_tier_and_result_has_a_derivation(here: Here) -> None:
    shown = here(*SMALL, "--json").json
    assert [tier["name"] for tier in shown["tiers"]] == TIERS
    for tier in shown["tiers"]:
        assert "÷" in tier["follows_from"]
        assert tier["figures"]
        assert tier["used"] == pytest.approx(tier["load"] / tier["given"], abs=1e-3)
    assert all(shown["follows_from"].values())


def test_json_is_one_complete_object(here: Here) -> None:
    shown = here(*SMALL, "--json").json
    assert set(shown) == {
        "facts", "result", "follows_from", "tiers", "breaks_first", "breaking_order", "headroom", "figures",
        "assumptions", "series", "around",
    }  # fmt: skip
    assert set(shown["result"]) == {
        "sold", "fifty_percent_after_s", "ninety_percent_after_s", "ninety_nine_percent_after_s",
        "ninety_nine_percent_between_s", "sold_out_after_s", "sold_out_between_s", "ended_after_s", "longest_line",
        "most_trying_to_join", "called", "attempts", "attempts_per_second", "attempts_per_second_peak",
        "busiest_second", "joined_last_after_s", "admission_wait", "slowest_purchase_ms",
    }  # fmt: skip
    assert shown["result"]["sold"] == 200
    assert set(shown["result"]["admission_wait"]) == {"p50", "p90", "p99", "max"}
    assert shown["breaks_first"] in TIERS
    assert shown["figures"]["join"]["per_second"] > 0
    assert len({len(values) for values in shown["series"].values()}) == 1
    series = shown["series"]
    for units in zip(series["available"], series["held"], series["sold"], strict=True):
        assert sum(units) == 200


def test_what_surrounds_a_sale_is_multiplied_out(here: Here) -> None:
    needs = {need["name"]: need for need in here(*SMALL, "--json", "--cdn-per-million", "1000000").json["around"]}
    assert list(needs) == ["CDN", "broker", "consumers", "replicas", "cells"]
    assert all(need["follows_from"] for need in needs.values())
    # At least the page of each of 1,000 people, at 1 for a request; 5 clicks of each, 500 B.
    assert needs["CDN"]["amount"] > 8_000
    assert needs["broker"]["amount"] > 1_000 * 5 * 500 / 1e6
    assert needs["cells"]["amount"] >= 1
    shop = here(*SMALL, "--json", "--payment", "external", "--no-edge-cache").json["around"]
    assert [need["name"] for need in shop] == ["broker", "replicas", "cells"]


def test_a_forecast_is_deterministic(here: Here) -> None:
    assert here(*SMALL, "--json").out == here(*SMALL, "--json").out


@pytest.mark.parametrize("engine", ["sqlite", "postgres", "redis"])
@pytest.mark.parametrize("room", ["--room", "--no-room"])
def test_every_engine_has_a_forecast(here: Here, engine: str, room: str) -> None:
    shown = here(*SMALL, "--engine", engine, room, "--payment", "wallet", "--json").json
    names = [tier["name"] for tier in shown["tiers"]]
    assert ("line" in names) == (room == "--room")
    assert ("PostgreSQL" in names) == (engine != "sqlite")


def test_a_report_is_one_file_with_plots(here: Here) -> None:
    ran = here(*SMALL, "--report", "plan.html")
    page = (here.directory / "plan.html").read_text()
    assert "Report: plan.html" in ran.out
    assert page.count("<figure>") == 4
    assert not any(word in page for word in ("src=", "href=", "url(", "@import", "fetch("))
    assert "Bottlenecks, tightest first" in page


def test_custom_figures_change_the_plan_and_are_named(here: Here) -> None:
    bench = {"figures": {"joins": 20.0, "joins_desk": 50_000.0}, "machine": {"engine": "postgres"}}
    (here.directory / "room.json").write_text(json.dumps(bench))
    shown = here(*SMALL, "--figures", "room.json", "--json").json
    api = shown["tiers"][1]
    assert api["needed"] >= 10
    assert "room.json" in api["figures"][0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--users and --units"),
        (["--users", "10"], "--users and --units"),
        (["--users", "0", "--units", "1"], "--users"),
        (["--users", "10", "--units", "1", "--abandon", "1.5"], "--abandon"),
        (["--users", "10", "--units", "1", "--conversion", "0"], "conversion is a share above 0"),
        (["--users", "10", "--units", "1", "--instant", "--payment", "external"], "needs a cart"),
        (["--users", "10", "--units", "1", "--engine", "oracle"], "oracle"),
        (["--users", "10", "--units", "1", "--engine", "sqlite", "--api", "2"], "SQLite runs in one process"),
        (["--users", "10", "--units", "1", "--engine", "postgres", "--shards", "2"], "shards need Redis"),
        (["--users", "10", "--units", "1", "--figures", "none.json"], "none.json cannot be read"),
        (["--users", "10", "--units", "1", "--report", "no/such/place.html"], "there is no directory"),
        (["--check-against", "none.json"], "none.json cannot be read"),
    ],
)
def test_wrong_use_is_refused(here: Here, arguments: list[str], says: str) -> None:
    ran = here("plan", *arguments)
    assert ran.code == 2
    assert says in ran.err
    assert ran.out == ""


def test_a_rush_is_compared_and_the_exit_status_says_whether_they_agree(here: Here) -> None:
    (here.directory / "near.json").write_text(rush())
    (here.directory / "far.json").write_text(rush(sold_out_after_s=400.0))
    (here.directory / "other.json").write_text('{"figures": {}}')
    near, far = (here("plan", "--check-against", name) for name in ("near.json", "far.json"))
    assert (near.code, far.code) == (0, 1)
    assert "within 20 %" in near.out
    assert "not within 20 %" in far.out
    shown = here("plan", "--check-against", "far.json", "--json").json
    assert [one["is_within"] for one in shown["compared"] if one["name"] == "sold_out_after"] == [False]
    assert shown["plan"]["facts"]["users"] == 580
    assert "is not what `holdfast rush --json` prints" in here("plan", "--check-against", "other.json").err
