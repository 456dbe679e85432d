"""Growth and approaches on real engines, with meaningless small sizes and rounds."""

import pytest
from bench_command import run

from holdfast.lab.bench.growth.concurrency import POOLS, WAITING
from holdfast.lab.bench.growth.curves import NAMES
from holdfast.lab.bench.growth.sizes import SIZES, sizes_to
from holdfast.lab.bench.suites.approaches import WORTH

COSTS = {"find_ms", "view_ms", "expire_ms", "idle_ms", "check_ms", "process_mb"}
LOOKS = {"again_per_second", "again_p99_ms", "room_ms", "process_mb"}


@pytest.mark.parametrize(
    ("engine", "curves", "costs"),
    [
        ("sqlite", {"waiting", "pools", "held", "line"}, COSTS),
        ("redis", {"waiting", "pools", "held"}, COSTS | {"rebuild_ms", "valkey_mb"}),
    ],
)
def test_every_curve_is_measured_point_by_point(engine: str, curves: set[str], costs: set[str]) -> None:
    report = run("growth", "--engine", engine, "--seconds", "0.1", "--up-to", "20")
    assert set(report["curves"]) == curves
    points = {name: curve["points"] for name, curve in report["curves"].items()}
    assert [point["at"] for point in points["waiting"]] == list(WAITING)
    assert [point["at"] for point in points["pools"]] == [1, 10, 20]
    usual = {"at", "per_second", "p50_ms", "p99_ms"}
    wanted = {"waiting": usual, "pools": usual, "held": usual | costs, "line": usual | LOOKS}
    for name in curves:
        assert all(set(point) - {"busy_per_second"} == wanted[name] for point in points[name])
        assert all(min(point.values()) > 0 for point in points[name])
    assert report["ratios"]["held_last_of_first"] == 1
    assert report["figures"]["waiting_16"] == points["waiting"][2]["per_second"]
    assert set(report["latency_ms"]) == set(report["figures"])
    assert report["machine"]["engine"] == engine


def test_sizes_end_at_the_given_maximum() -> None:
    assert sizes_to(1_000_000) == list(SIZES)
    assert sizes_to(2_000) == [1_000, 2_000]
    assert sizes_to(50) == [50]
    assert sizes_to(1_000_000, POOLS) == list(POOLS)


def test_every_approach_is_measured_and_has_its_guarantees() -> None:
    report = run("approaches", "--seconds", "0.1", timeout_s=600)
    assert set(report["figures"]) == set(report["worth"]) == set(report["latency_ms"]) == set(WORTH)
    assert all(value > 0 for value in report["figures"].values())
    figures, ratios = report["figures"], report["ratios"]
    assert ratios["lock"] == pytest.approx(figures["holdfast_postgres"] / figures["lock"], rel=0.01)
    assert ratios["lua_synced"] == pytest.approx(figures["holdfast_redis"] / figures["lua_synced"], rel=0.01)
    assert all(all(words for words in worth.values()) for worth in report["worth"].values())
    assert set(report["tries"]) == {"serializable", "optimistic_version"}
    assert min(report["tries"].values()) >= 1
    # A paused holder of a lock that expires writes alongside the next one. Everything else is safe.
    oversold = {name for name, units in report["oversold"].items() if units}
    assert set(report["oversold"]) == set(WORTH)
    assert oversold == {"lock", "redlock"}


def test_every_figure_of_a_point_has_a_name() -> None:
    assert COSTS | LOOKS | {"per_second", "p50_ms", "p99_ms", "rebuild_ms", "valkey_mb", "busy_per_second"} == set(
        NAMES
    )
