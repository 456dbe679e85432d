"""The figures of a plan: their source, and how users replace them."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict
from plan_sales import MEASURED

from holdfast.errors import SettingsError
from holdfast.lab.plan.figures import ENGINES, Figure, read_figures

HTTP = {
    "holdfast": 9_000.0,
    "holdfast_keyed": 8_000.0,
    "sold_out": 20_000.0,
    "available": 1.0,
    "bare_rsgi": 50_000.0,
}
GATE = {"holdfast": 30_000.0, "holdfast_keyed": 21_000.0, "sold_out": 90_000.0, "holdfast_limited": 20_000.0}
ROOM = {"joins": 6_000.0, "joins_desk": 12_000.0, "now": 18_000.0, "purchases": 4_000.0, "refusals": 7_000.0}
SETTLEMENT = {"holdfast": 2_000.0, "one_per_order": 90.0, "purchases": 200.0}


def bench(path: Path, figures: dict[str, Any], engine: str = "redis") -> Path:
    latency = {"holdfast": {"p50": 3.5, "p99": 9.0}}
    path.write_text(
        json.dumps({"figures": figures, "ratios": {}, "latency_ms": latency, "machine": {"engine": engine}})
    )
    return path


@pytest.mark.parametrize("engine", ENGINES)
def test_every_figure_says_what_it_is_and_where_it_was_measured(engine: str) -> None:
    figures = {name: one for name, one in asdict(MEASURED[engine]).items() if isinstance(one, Figure)}
    assert all(one.per_second > 0 and one.about for one in figures.values())
    without = {name for name, one in figures.items() if "no bench has it" in one.source}
    assert without == {"confirm", "watch", "receipt", "card", "drain", "ledger"}
    assert all("holdfast bench, 20" in one.source for name, one in figures.items() if name not in without)
    # The gate's figure must come from the plan's own engine.
    assert figures["gate"].source.endswith(f"gate on {engine}")


def test_a_figure_of_another_engine_is_marked() -> None:
    assert "on postgres, not measured on redis" in MEASURED["redis"].line.source
    assert MEASURED["sqlite"].join.source.endswith("room on sqlite")


@pytest.mark.parametrize(
    ("figures", "changed"),
    [
        (HTTP, {"edge": 50_000.0}),
        (GATE, {"gate": 21_000.0}),
        (ROOM, {"purchase": 4_000.0, "refusal": 7_000.0, "join": 6_000.0, "line": 12_000.0, "look": 18_000.0}),
        (SETTLEMENT, {"wallet": 2_000.0}),
    ],
    ids=["http", "gate", "room", "settlement"],
)
def test_a_bench_replaces_the_figures_it_has_and_no_others(
    figures: dict[str, float], changed: dict[str, float], tmp_path: Path
) -> None:
    before = MEASURED["redis"]
    after = read_figures(before, "redis", bench(tmp_path / "mine.json", figures))
    found = {name: one for name, one in asdict(after).items() if one != getattr(before, name)}
    replaced = {name: one.per_second for name, one in found.items() if isinstance(one, Figure)}
    assert replaced == changed
    assert all(one.source.startswith("mine.json: ") for one in found.values() if isinstance(one, Figure))
    assert after.answer_ms == (3.5 if figures is HTTP else before.answer_ms)


def test_a_file_of_all_benches_is_read_for_the_engine_of_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    benches = [
        {"bench": "room", "engine": "redis", "figures": {"joins": 7_000.0}},
        {"bench": "room", "engine": "postgres", "figures": ROOM},
        {"bench": "gate", "engine": "postgres", "figures": GATE},
        {"bench": "growth", "engine": "redis", "figures": {"joins": 1.0, "holdfast": 1.0}},
    ]
    path.write_text(json.dumps({"date": "2026-11-16", "benches": benches}))
    found = read_figures(MEASURED["redis"], "redis", path)
    # Figures measured in Redis mode take precedence over those of its ledger.
    assert (found.join.per_second, found.line.per_second) == (7_000, 12_000)
    assert found.gate == MEASURED["redis"].gate
    assert read_figures(MEASURED["postgres"], "postgres", path).gate.per_second == 21_000


def test_figures_without_a_bench_may_be_given_in_a_file(tmp_path: Path) -> None:
    found = read_figures(MEASURED["redis"], "redis", bench(tmp_path / "mine.json", {"card": 500.0, "watch": 2_000.0}))
    assert (found.card.per_second, found.watch.per_second) == (500, 2_000)
    assert found.card.source == "mine.json: by hand on redis"


def test_figures_of_the_ledger_apply_to_redis_mode(tmp_path: Path) -> None:
    room = bench(tmp_path / "room.json", ROOM, engine="postgres")
    assert read_figures(MEASURED["redis"], "redis", room).line.per_second == 12_000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nonsense", "is not what `holdfast bench"),
        ("{}", "is not what `holdfast bench"),
        ('{"figures": {"other": 1}, "machine": {"engine": "redis"}}', "has none of the figures"),
        ('{"figures": {"joins": 5}, "machine": {"engine": "sqlite"}}', "has none of the figures that a plan for redis"),
        ('{"benches": [{"bench": "room"}]}', "is not what `holdfast bench"),
        ('{"figures": {"joins": 0}, "machine": {"engine": "redis"}}', "nothing can be planned with"),
    ],
)
def test_a_file_without_figures_of_this_engine_is_refused(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match=says):
        read_figures(MEASURED["redis"], "redis", path)
