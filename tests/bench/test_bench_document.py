"""BENCHMARKS.md and its plots, from made-up figures."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from holdfast.lab.bench.document.approaches import approaches_table
from holdfast.lab.bench.document.goals import GOALS, GROWTH_GOALS, judge
from holdfast.lab.bench.document.page import document, write_document
from holdfast.lab.bench.document.plots import PANELS, plots_of
from holdfast.lab.bench.growth.curves import Curve, Growth, Point
from holdfast.lab.bench.measure.results import Bench, Failed, Measured
from holdfast.lab.bench.parts import all_parts
from holdfast.lab.bench.suites.approaches import COMPARED, WORTH

ENGINES = ("sqlite", "postgres", "redis")
MACHINE = {
    "cores": 2, "cpu": "Made-up CPU", "platform": "Linux", "python": "3.11.7", "fsync_ms": 0.25, "seconds": 3.0,
    "date": "2026-11-16T10:00:00+00:00", "driver": "wrk 4.1", "postgres": "18.1", "up_to": 1_000_000,
}  # fmt: skip
HTTP = {
    "holdfast": 13_186.0, "sold_out": 23_406.0, "bare_handler": 26_815.0, "tutorial": 1_785.0, "tutorial_sold_out": 1.0,
}  # fmt: skip


def bench(name: str, engine: str, figures: dict[str, float], ratios: dict[str, float], **more: object) -> Bench:
    machine = MACHINE | {"engine": engine}
    told = {"bench": name, "engine": engine, "figures": figures, "ratios": ratios, "machine": machine, **more}
    return msgspec.convert(told, Bench)


def grown(engine: str) -> Bench:
    sizes = {"waiting": (1, 4_096), "pools": (1, 1_000), "held": (1_000, 1_000_000), "line": (1_000, 1_000_000)}
    costs = {"find_ms": 0.4, "view_ms": 0.5, "expire_ms": 12.0, "process_mb": 210.0}
    curves = [
        Curve(name, f"about {name}", f"{name} things", [
            Point(at, {"per_second": 31_234.0, "p50_ms": 7.5, "p99_ms": 15.25} | (costs if name == "held" else {}))
            for at in ends
        ])
        for name, ends in sizes.items() if name != "line" or engine != "redis"
    ]  # fmt: skip
    body = Growth("growth", curves, MACHINE | {"engine": engine}).body()
    return msgspec.convert({"bench": "growth", "engine": engine, **body}, Bench)


@pytest.fixture
def measured() -> Measured:
    ratios = {"tutorial": 7.39, "bare_handler": 0.49, "sold_out_of_bare": 0.873}
    latency = {"sold_out": {"p50": 11.0, "p99": 46.0}}
    approaches = {name: 100.0 * number for number, name in enumerate(WORTH, 1)}
    worth = {name: msgspec.to_builtins(each) for name, each in WORTH.items()}
    return Measured(
        "2026-11-16T10:00:00+00:00",
        [
            bench(
                "gate", "postgres", {"holdfast": 21_887.0, "conditional_update": 814.0}, {"conditional_update": 26.9}
            ),
            bench("http", "sqlite", HTTP, ratios),
            bench("http", "redis", HTTP | {"holdfast_two": 15_000.0}, ratios | {"two_of_one": 1.138}),
            bench("room", "sqlite", {"joins": 10_296.0}, {"bare_handler": 1.03}, latency_ms=latency),
            bench("settlement", "sqlite", {"holdfast": 928.0}, {}),
            *map(grown, ENGINES),
            bench(
                "approaches",
                "every",
                approaches,
                dict.fromkeys(COMPARED, 12.3),
                worth=worth,
                oversold={"for_update": 0, "redlock": 20},
                tries={"serializable": 14.7},
            ),
        ],
        [Failed("gate", "sqlite", "10 were granted, but 9 units are gone", "2026-11-16T11:00:00+00:00")],
    )


def test_the_page_of_approaches_has_every_figure_with_its_date_and_the_load(measured: Measured) -> None:
    shown = approaches_table(measured)
    found = measured.of("approaches", "every")
    assert found is not None
    assert found.date[:10] in shown
    assert " of other work" not in shown
    found.machine["load"] = 0.3
    assert "with a load of 0.3 of other work" in approaches_table(measured)
    for name in WORTH.keys() - {"lua", "holdfast_sqlite", "holdfast_redis"}:
        assert f"| {found.figures[name]:,.0f} |" in shown
    assert "not measured" not in shown
    del found.figures["redlock"]
    assert approaches_table(measured).count("not measured") == 1
    assert "Nothing was measured" in approaches_table(Measured(""))


def test_every_goal_is_judged_for_every_engine(measured: Measured) -> None:
    told = {(judged.goal.words, judged.engine): (judged.value, judged.verdict) for judged in judge(measured)}
    assert len(told) == sum(len(goal.engines) for goal in GOALS + GROWTH_GOALS)
    assert told["HTTP, accepted: ten times the tutorial", "sqlite"] == ("7.4 \N{MULTIPLICATION SIGN}", "missed")
    assert told["HTTP, sold-out: 75 % of a bare handler", "redis"] == ("87 %", "met")
    assert told["HTTP: two server processes beat one", "redis"][1] == "met"
    assert told["HTTP: two server processes beat one", "postgres"] == ("", "not measured")
    assert told["settlement: 1,000 orders per second", "sqlite"] == ("928/s", "missed")
    assert told["sold-out answers to buyers with a key at 5,000/s: p99 under 20 ms", "sqlite"] == ("46.0 ms", "missed")
    assert told["decisions stay 80 % as fast", "redis"] == ("100 %", "met")
    assert told["joins stay 80 % as fast", "postgres"][1] == "met"


def test_the_document_has_machine_versions_date_figures_ratios_and_what_failed(measured: Measured) -> None:
    text = document(measured)
    assert "2 cores, Made-up CPU" in text
    assert "Python 3.11.7" in text
    assert "driven by wrk 4.1" in text
    assert "2026-11-16" in text
    assert "gate on sqlite, 2026-11-16: 10 were granted, but 9 units are gone" in text
    assert re.search(r"conditional `UPDATE` per request.*814 \(ours is 27 \N{MULTIPLICATION SIGN}\)", text)
    assert re.search(r"two ÷ one \|  \| 1\.1 \N{MULTIPLICATION SIGN}", text)
    assert re.search(r"ours on Redis\*\*.*PostgreSQL judges", text)
    assert re.search(r"Redlock over five Valkeys.*\*\*yes, by 20\*\*.*halted for longer", text)
    assert re.search(r"FOR UPDATE`, PostgreSQL \|.*\| no \| yes \|", text)
    assert re.search(r"SERIALIZABLE`, retried.* 14\.7 \|", text)
    assert "not measured" in text
    for title in (
        "Targets",
        "The gate",
        "Over HTTP",
        "Settlement",
        "The room",
        "Growth",
        "Approaches",
        "Measured by hand",
    ):
        assert text.count(f"\n## {title}\n") == 1


def test_growth_names_the_largest_size_per_engine(measured: Measured) -> None:
    assert "people in the queue, to 1,000,000:" in document(measured)
    redis = measured.of("growth", "redis")
    assert redis is not None
    redis.machine = redis.machine | {"up_to": 10_000}
    assert "people in the queue, to 1,000,000 (SQLite, PostgreSQL), 10,000 (Redis):" in document(measured)


def test_tables_are_rectangular_and_sections_that_were_not_measured_are_left_out(measured: Measured) -> None:
    measured.benches = [one for one in measured.benches if one.bench != "room"]
    text = document(measured)
    assert "## The room" not in text
    for block in text.split("\n\n"):
        if block.startswith("|"):
            assert len({line.replace("\\|", "").count("|") for line in block.splitlines()}) == 1, block


def test_every_plot_is_self_contained_and_linked(measured: Measured, tmp_path: Path) -> None:
    write_document(measured, tmp_path)
    text = (tmp_path / "BENCHMARKS.md").read_text()
    names = re.findall(r"\]\((benchmarks/[\w-]+\.svg)\)", text)
    assert len(names) == len(PANELS)
    for name in names:
        svg = ET.fromstring((tmp_path / name).read_text())
        assert svg.tag == "{http://www.w3.org/2000/svg}svg"
        style = svg.findtext("{http://www.w3.org/2000/svg}style") or ""
        assert "prefers-color-scheme:dark" in style
        used = set(re.findall(r"var\(--(\w+)\)", (tmp_path / name).read_text()))
        assert used <= set(re.findall(r"--(\w+):", style))
        lines = list(svg.iter("{http://www.w3.org/2000/svg}path"))
        assert lines
        assert all("nan" not in line.attrib["d"] for line in lines)


def test_a_plot_without_measurements_is_not_drawn() -> None:
    assert plots_of(Measured("")) == {}


def test_a_new_measurement_replaces_the_old_one(measured: Measured) -> None:
    order = [(part.bench, part.engine) for part in all_parts(3.0, 1_000_000)]
    measured.put(bench("gate", "sqlite", {"holdfast": 1.0}, {}), order)
    measured.put(bench("http", "sqlite", HTTP | {"holdfast": 2.0}, {}), order)
    measured.put(Failed("room", "sqlite", "why", "2026-11-17"), order)
    assert [(one.bench, one.engine) for one in measured.benches[:3]] == [
        ("gate", "sqlite"), ("gate", "postgres"), ("http", "sqlite"),
    ]  # fmt: skip
    assert measured.benches[2].figures["holdfast"] == 2.0
    assert [(one.bench, one.reason) for one in measured.failed] == [("room", "why")]
    assert measured.of("room", "sqlite") is not None
