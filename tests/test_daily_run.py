"""The budget of a daily test."""

from types import SimpleNamespace
from typing import Any

import pytest

from daily_run import BUDGET_S, IDLE_BUDGET_S, Budget


def report_of(cpu_s: float, idle_s: float, *marks: str) -> Any:
    took = [("cpu_s", cpu_s), ("idle_s", idle_s)]
    return SimpleNamespace(nodeid="it", when="call", keywords=dict.fromkeys(marks, 1), user_properties=took)


def verdict_on(report: Any, *, fails: bool = True) -> pytest.ExitCode:
    budget, session = Budget(fails=fails), SimpleNamespace(exitstatus=pytest.ExitCode.OK)
    budget.pytest_runtest_logreport(report)
    budget.pytest_sessionfinish(session)  # type: ignore[arg-type]
    return pytest.ExitCode(session.exitstatus)


@pytest.mark.parametrize(
    ("cpu_s", "idle_s", "expected"),
    [
        (BUDGET_S - 0.1, IDLE_BUDGET_S - 0.1, pytest.ExitCode.OK),
        (BUDGET_S + 0.1, BUDGET_S + 0.1, pytest.ExitCode.TESTS_FAILED),
        (0.0, IDLE_BUDGET_S + 0.1, pytest.ExitCode.TESTS_FAILED),
    ],
)
def test_a_run_with_a_test_over_its_budget_has_failed(cpu_s: float, idle_s: float, expected: int) -> None:
    assert verdict_on(report_of(cpu_s, idle_s)) == expected


@pytest.mark.parametrize("mark", ["slow", "daily"])
def test_what_is_slow_by_nature_has_no_budget(mark: str) -> None:
    assert verdict_on(report_of(99.0, 99.0, mark)) == pytest.ExitCode.OK


def test_a_run_that_only_reports_has_not_failed() -> None:
    assert verdict_on(report_of(99.0, 99.0), fails=False) == pytest.ExitCode.OK
