from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from families import FAMILIES

from fault_seeds import pytest_generate_tests

TESTS = Path(__file__).parents[1]
README = (TESTS.parent / "README.md").read_text()
DOCUMENTED = (TESTS.parent / "docs" / "FAULTS.md").read_text()
# What must survive is counted from 1 to 42, without gaps.
NUMBERS = range(1, 43)
pytestmark = pytest.mark.daily


@pytest.mark.parametrize("number", NUMBERS)
def test_every_family_has_tests(number: int) -> None:
    assert number in FAMILIES, f"no test injects the faults of family {number}: name one in families.py"
    assert FAMILIES[number].tests, f"no test injects {FAMILIES[number].fault}"


def test_there_are_no_other_families() -> None:
    assert sorted(FAMILIES) == [*NUMBERS]


@pytest.mark.parametrize("name", sorted({test for family in FAMILIES.values() for test in family.tests}))
def test_every_test_of_a_family_exists(name: str) -> None:
    file, _, function = name.partition("::")
    assert f"def {function}(" in (TESTS / file).read_text() if function else "def test_" in (TESTS / file).read_text()


@pytest.mark.parametrize("number", NUMBERS)
def test_the_docs_say_what_happens_and_link_a_test_that_shows_it(number: int) -> None:
    files = {test.partition("::")[0] for test in FAMILIES[number].tests}
    assert any(f"(../tests/{file})" in DOCUMENTED for file in files), FAMILIES[number].fault


def test_every_row_of_the_docs_says_how_long_and_what_one_sees_and_links_a_test_that_exists() -> None:
    rows = [
        line for line in DOCUMENTED.splitlines() if line.startswith("| ") and not line.startswith("| what happens |")
    ]
    assert len(rows) > 100
    for row in rows:
        what, how_long, seen, _, linked = (cell.strip() for cell in row.removesuffix("|")[1:].split(" | "))
        names = [part.partition(")")[0] for part in linked.split("](../tests/")[1:]]
        assert all((what, how_long, seen, names)), row
        assert [name for name in names if not (TESTS / name).is_file()] == []


def test_every_promise_of_the_readme_links_a_test_that_exists() -> None:
    promised = README.partition("## What it promises")[2].partition("\n## ")[0].split("\n- ")[1:]
    assert len(promised) >= 8
    for promise in promised:
        names = [part.partition(")")[0] for part in promise.split("](tests/")[1:]]
        assert names, f"no test is linked: {promise}"
        assert [name for name in names if not (TESTS / name).is_file()] == []


def seeds_of(nodeid: str, count: int) -> list[tuple[str, list[str]]]:
    """Each seed that this test runs with, and how it is marked."""
    given: list[Any] = []
    pytest_generate_tests(
        SimpleNamespace(  # type: ignore[arg-type]
            config=SimpleNamespace(getoption=lambda _: count),
            fixturenames=["seed"],
            definition=SimpleNamespace(nodeid=nodeid, iter_markers=lambda _: []),
            parametrize=lambda _name, values, **_: given.extend(values),
        )
    )
    return [(one, []) if isinstance(one, str) else (one.values[0], [mark.name for mark in one.marks]) for one in given]


def test_the_daily_run_has_one_seed_of_a_fault_and_test_all_the_others() -> None:
    assert seeds_of("tests/outbox/test_deliverer.py::test_it", 3) == [
        ("seed1", []),
        ("seed2", ["slow"]),
        ("seed3", ["slow"]),
    ]
    assert seeds_of("tests/gate/test_winners.py::test_it", 2) == [("seed1", []), ("seed2", [])]


def test_a_seed_is_shown_with_the_command_that_replays_it(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_SEED", "4711")
    assert request.getfixturevalue("seed") == 4711
    seeds = request.config.getoption("--seeds")
    assert f"HOLDFAST_TEST_SEED=4711 pytest --seeds {seeds} '{request.node.nodeid}'" in capsys.readouterr().out
