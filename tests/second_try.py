"""When a test may be tried once more: if it ran out of time, or if other processes were part of it. The run says so.

Hundreds of tests start servers, kill them and wait for others to notice. On a machine that is busy with something else
one of them may not get its turn in time, which tells nothing about Holdfast. Who waits in a test therefore raises
`TimeoutError`, and who compares uses `assert`.

A wrong answer of the rulebook, of a gate or of the ledger is wrong at once, for a race that is lost one time in a
thousand is what those tests look for. Elsewhere a wrong answer may be the machine's, and is told with its traceback;
but a run in which that happens more than a few times has failed.
"""

import subprocess
from collections.abc import Generator
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import pytest
from _pytest.runner import runtestprotocol
from playwright.sync_api import TimeoutError as PageTimeout

LATE = (TimeoutError, httpx.TimeoutException, subprocess.TimeoutExpired, PageTimeout)
WRONG_AT_ONCE = frozenset({"domain", "gate", "ledger", "simulation", "verify"})
UNSTEADY_MAX = 3

RAN_LATE = "ran late"
WAS_WRONG = "was wrong"


def in_time(since: float, within_s: float) -> None:
    """For what must not take longer, by the monotonic clock."""
    took = monotonic() - since
    if took > within_s:
        raise TimeoutError(f"took {took:.1f} s, not {within_s:g}")


def is_late(exc: BaseException | None) -> bool:
    """Whether time is what this came from."""
    if exc is None:
        return False
    if isinstance(exc, BaseExceptionGroup):
        return all(is_late(each) for each in exc.exceptions)
    return isinstance(exc, LATE) or is_late(exc.__cause__)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    report.is_late = call.excinfo is not None and is_late(call.excinfo.value)
    return report


def _reason(item: pytest.Item, reports: list[pytest.TestReport]) -> tuple[str, str] | None:
    """Why to try a test again, and what it said the first time; None if it passed, or if its word is final."""
    failed = [report for report in reports if report.failed]
    if not failed:
        return None
    said = "\n".join(report.longreprtext for report in failed)
    if all(report.is_late for report in failed):
        return RAN_LATE, said
    return None if WRONG_AT_ONCE.intersection(Path(item.path).parts) else (WAS_WRONG, said)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    reason = _reason(item, reports)
    if reason is not None:
        item._initrequest()  # type: ignore[attr-defined]  # As pytest does itself before a test.
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        reports[-1].user_properties.append(reason)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


class Again:
    """What was tried again in this run, by whichever of its processes."""

    def __init__(self) -> None:
        self.said: dict[str, dict[str, str]] = {RAN_LATE: {}, WAS_WRONG: {}}

    @property
    def is_too_much(self) -> bool:
        return len(self.said[WAS_WRONG]) > UNSTEADY_MAX

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, said in report.user_properties:
            if name in self.said:
                self.said[name][report.nodeid] = str(said)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.is_too_much and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.said[RAN_LATE]:
            terminalreporter.section("ran out of time, and were tried once more")
            for nodeid, said in sorted(self.said[RAN_LATE].items()):
                terminalreporter.line(f"{nodeid}\n{said}\n")
        if self.said[WAS_WRONG]:
            verdict = f"more than {UNSTEADY_MAX}: this run has failed" if self.is_too_much else "look into them"
            terminalreporter.section(f"were wrong, and were tried once more ({verdict})")
            for nodeid, said in sorted(self.said[WAS_WRONG].items()):
                terminalreporter.line(f"{nodeid}\n{said}\n")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Again())
