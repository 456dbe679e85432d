"""The check of `make check` notices documentation that disagrees with code and measurements."""

from math import ceil
from pathlib import Path

import pytest

from holdfast.lab.bench.measure.results import Measured, read_measured
from holdfast.lab.documents import page_problems, problems, rendered, settings_table
from holdfast.lab.growing import growing_tables
from holdfast.lab.plan.figures import measured

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_a_changed_table_is_noticed_and_restored() -> None:
    page = Path("docs/SETTINGS.md")
    right, spoilt = page.read_text(), page.read_text().replace("`256`", "`64`")
    assert [one for one in problems({page: spoilt}) if one.startswith("docs/SETTINGS.md is out of date")]
    assert rendered(spoilt, read_measured(Path("docs"))) == right
    assert not [one for one in problems({page: right}) if one.startswith("docs/SETTINGS.md")]


def test_a_table_can_be_limited_to_some_settings() -> None:
    text = "<!-- settings:begin audit_days -->\nold\n<!-- settings:end -->\n"
    assert rendered(text, Measured("")).splitlines()[1:-1] == settings_table(["audit_days"]).splitlines()
    assert "`HOLDFAST_AUDIT_DAYS` | `30`" in rendered(text, Measured(""))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("see [this](NOWHERE.md#part)", "broken link NOWHERE.md"),
        ("in `gate/sequel.py`, not `gate/sql.py`", "no such file: gate/sequel.py"),
        ("set `HOLDFAST_LINE_MAX`", "HOLDFAST_LINE_MAX is not a setting"),
        ("`HOLDFAST_SETTLEMENT_PARALLEL` (64)", "the default of HOLDFAST_SETTLEMENT_PARALLEL is 256, not 64"),
    ],
)
def test_a_page_with_a_mistake_is_reported(text: str, problem: str) -> None:
    assert list(page_problems(Path("docs/PAGE.md"), text)) == [problem]
    assert list(page_problems(Path("docs/PAGE.md"), "[a](README.md) and `HOLDFAST_AUDIT_DAYS` (30)")) == []


def test_the_tables_of_growing_come_from_the_measurements() -> None:
    found = read_measured(Path("docs"))
    tables = growing_tables(found)
    room = found.of("room", "sqlite")
    assert room is not None
    assert f"{round(room.figures['purchases'], -2):,.0f} purchases/s by buyers" in tables
    edge = next(line for line in tables.splitlines() if line.startswith("| cached answers"))
    # One core was measured; how many more are needed is extrapolated.
    assert edge.count("**") == 4
    most = ceil(1_000_000 / measured("postgres").edge.per_second / 0.7)
    assert edge.endswith(f"| {most} |")
