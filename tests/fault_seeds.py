"""`--seeds N`: tests that take a seed run with N of them. `--faults`: only the tests of the fault families."""

from collections import Counter

import pytest
from families import FAMILIES


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", type=int, default=1, help="how many seeds each test that takes one runs with")
    parser.addoption("--faults", action="store_true", help="run the tests of the fault families only, and count them")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    count = metafunc.config.getoption("--seeds")
    takes_seed = "seed" in metafunc.fixturenames and not has_seeds_of_its_own(metafunc.definition)
    if takes_seed and count > 1:
        # `make test` runs one seed of a test that is not slow; `make test-all` runs the others, if it injects faults.
        marks = [pytest.mark.slow] if families_of(metafunc.definition.nodeid) else []
        more = [pytest.param(f"seed{number}", marks=marks) for number in range(2, count + 1)]
        metafunc.parametrize("seed", ["seed1", *more], indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--faults"):
        others = [item for item in items if not families_of(item.nodeid)]
        items[:] = [item for item in items if families_of(item.nodeid)]
        config.hook.pytest_deselected(items=others)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--faults"):
        return
    passed, failed = (
        Counter(number for report in terminalreporter.stats.get(outcome, ()) for number in families_of(report.nodeid))
        for outcome in ("passed", "failed")
    )
    terminalreporter.section("faults")
    for number, family in sorted(FAMILIES.items()):
        bad = f"  FAILED {failed[number]}" if failed[number] else ""
        terminalreporter.write_line(f"{number:3} {passed[number]:5} passed  {family.fault}{bad}")


def families_of(nodeid: str) -> list[int]:
    name = nodeid.removeprefix("tests/").partition("[")[0]
    file = name.partition("::")[0]
    return [number for number, family in FAMILIES.items() if {name, file} & {*family.tests}]


def has_seeds_of_its_own(test: pytest.Item) -> bool:
    return any("seed" in mark.args[0] for mark in test.iter_markers("parametrize"))
