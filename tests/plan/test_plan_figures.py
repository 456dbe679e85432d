"""The figures a plan is made from: where they are from, and how one's own take their place."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from holdfast.errors import SettingsError
from holdfast.plan.figures import MEASURED, Figure, read_figures

BENCHMARKS = Path(__file__).parents[2] / "docs" / "BENCHMARKS.md"
# Worked out from others that are there: 82 % of 10,665, 66 % of 26,815, 23,406 ÷ 54 %, 1 ÷ 13 µs.
DERIVED = {8_759.0, 17_698.0, 43_344.0, 76_923.0}

HTTP = {
    "holdfast": 9_000.0,
    "holdfast_keyed": 8_000.0,
    "sold_out": 20_000.0,
    "available": 1.0,
    "bare_front": 50_000.0,
}
GATE = {"holdfast": 30_000.0, "holdfast_keyed": 21_000.0, "sold_out": 90_000.0, "holdfast_limited": 20_000.0}
ROOM = {"joins": 6_000.0, "joins_desk": 12_000.0, "now": 18_000.0, "purchases": 4_000.0}
SETTLEMENT = {"holdfast": 2_000.0, "one_per_order": 90.0, "purchases": 200.0}


def bench(path: Path, figures: dict[str, Any], engine: str = "redis") -> Path:
    latency = {"holdfast": {"p50": 3.5, "p99": 9.0}}
    path.write_text(
        json.dumps({"figures": figures, "ratios": {}, "latency_ms": latency, "machine": {"engine": engine}})
    )
    return path


@pytest.mark.parametrize("engine", sorted(MEASURED))
def test_every_figure_is_in_the_benchmarks_or_worked_out_from_them(engine: str) -> None:
    numbers = {float(found.replace(",", "")) for found in re.findall(r"\d[\d,]*", BENCHMARKS.read_text())}
    figures = [one for one in asdict(MEASURED[engine]).values() if isinstance(one, Figure)]
    assert {one.per_second for one in figures} <= numbers | DERIVED
    assert all("BENCHMARKS.md" in one.source and one.about for one in figures)


@pytest.mark.parametrize(
    ("figures", "changed"),
    [
        (HTTP, {"purchase": 8_000.0, "refusal": 20_000.0, "edge": 50_000.0}),
        (GATE, {"gate": 21_000.0}),
        (ROOM, {"join": 6_000.0, "line": 12_000.0, "look": 18_000.0}),
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
    assert all(one.source == "mine.json" for one in found.values() if isinstance(one, Figure))
    assert after.answer_ms == (3.5 if figures is HTTP else before.answer_ms)


def test_the_ledger_of_redis_mode_may_have_been_measured_alone(tmp_path: Path) -> None:
    room = bench(tmp_path / "room.json", ROOM, engine="postgres")
    assert read_figures(MEASURED["redis"], "redis", room).line.per_second == 12_000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nonsense", "is not what `holdfast bench"),
        ("{}", "is not what `holdfast bench"),
        ('{"figures": {"other": 1}, "machine": {"engine": "redis"}}', "has none of the figures"),
        ('{"figures": {"joins": 5}, "machine": {"engine": "sqlite"}}', "was measured on sqlite"),
        ('{"figures": {"joins": 0}, "machine": {"engine": "redis"}}', "nothing can be planned with"),
    ],
)
def test_a_file_that_is_no_bench_of_this_engine_is_refused(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match=says):
        read_figures(MEASURED["redis"], "redis", path)
