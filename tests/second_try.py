"""A test that ran out of time is tried once more, and the run says so; a wrong answer is wrong at once.

Hundreds of tests start servers, kill them and wait for others to notice. On a machine that is busy with something else
one of them may not get its turn in time, which tells nothing about Holdfast. Who waits in a test therefore raises
`TimeoutError`, and who compares uses `assert`.
"""

import subprocess
from collections.abc import Generator
from time import monotonic
from typing import Any

import httpx
import pytest
from _pytest.runner import runtestprotocol
from playwright.sync_api import TimeoutError as PageTimeout

LATE = (TimeoutError, httpx.TimeoutException, subprocess.TimeoutExpired, PageTimeout)

RAN_LATE = ("ran late", True)


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


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if any(report.failed and report.is_late for report in reports):
        item._initrequest()  # type: ignore[attr-defined]  # As pytest does itself before a test.
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        reports[-1].user_properties.append(RAN_LATE)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    late = [
        report.nodeid
        for outcome in terminalreporter.stats.values()
        for report in outcome
        if RAN_LATE in getattr(report, "user_properties", ())
    ]
    if late:
        terminalreporter.section("ran out of time, and were tried once more")
        for nodeid in sorted(set(late)):
            terminalreporter.line(nodeid)
