"""Which tests run every day, in which order, and how long each may take.

`make test` runs what is not slow, `make test-all` the rest. Slow by nature are the directories of SLOW: they kill and
freeze whole systems, look at pages in a browser, or measure. A test among them that is marked `daily` runs every day
all the same, without a budget, so that none of this is first noticed in CI; a test elsewhere may be marked `slow`.

The budget of a daily test is BUDGET_S of processor time, of its process and of those it started and waited for. A test
that only sleeps uses none, so there is a limit on the time that passes, too. A busy machine stretches that time, so
time in which some process of the machine had to wait for a processor or a disk is left out; Linux counts it, and
elsewhere there is no such limit. Processes in each other's way also need more processor time, so the budget grows with
the share of time they are, up to twice. Time spent in fixtures does not count: the first test that needs a server
starts it for all.

How long a test takes depends on the machine all the same. So a test over its budget fails `make test`, where its author
sees it, and is only listed by `make test BUDGET=report`, which CI runs on machines of any speed.

No test is ever repeated.
"""

import resource
from collections.abc import Generator
from pathlib import Path
from time import monotonic

import pytest

from forking import spent_s
from quiet_time import PRESSURES, stalled_s

SLOW = frozenset({"bench", "browser", "faults"})
BUDGET_S = 2.0
# What `make test` passes to `-m`.
DAILY = "not slow"
IDLE_BUDGET_S = 3 * BUDGET_S
_CPU_PRESSURE, _DISK_PRESSURE = PRESSURES

# The directories whose tests take longest come first: nothing long is left for the end, when the other process is idle.
_LONGEST_FIRST = ("faults", "browser", "rush", "bench", "cli", "http", "settlement", "simulation", "gate")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--budget", choices=("fail", "report"), default="fail", help="what to do about tests over budget")


def pytest_configure(config: pytest.Config) -> None:
    # `make test-all` runs properties with many more examples: the budget is for the daily run.
    if not hasattr(config, "workerinput") and config.getoption("-m") == DAILY:
        config.pluginmanager.register(Budget(fails=config.getoption("--budget") == "fail"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _directory(item) in SLOW and not item.get_closest_marker("daily"):
            item.add_marker(pytest.mark.slow)
    items.sort(key=_rank)


def _directory(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).parts[0]


def _rank(item: pytest.Item) -> int:
    directory = _directory(item)
    return _LONGEST_FIRST.index(directory) if directory in _LONGEST_FIRST else len(_LONGEST_FIRST)


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used) + spent_s()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    cpu, clock = _cpu_s(), monotonic()
    without_cpu, without_disk = stalled_s(_CPU_PRESSURE), stalled_s(_DISK_PRESSURE)
    try:
        yield
    finally:
        passed_s = monotonic() - clock
        waited_s = min(stalled_s(_CPU_PRESSURE) - without_cpu, passed_s)
        cpu_s = (_cpu_s() - cpu) / (1 + waited_s / passed_s)
        idle_s = passed_s - waited_s - (stalled_s(_DISK_PRESSURE) - without_disk)
        item.user_properties += [("cpu_s", cpu_s), ("idle_s", idle_s)]


class Budget:
    """The daily tests of this run that took too long, in whichever of its processes."""

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails
        self._over: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" or {"slow", "daily"} & report.keywords.keys():
            return
        took = {name: value for name, value in report.user_properties if isinstance(value, float)}
        if took.keys() >= {"cpu_s", "idle_s"}:
            self._judge(report.nodeid, took["cpu_s"], took["idle_s"])

    def _judge(self, nodeid: str, cpu_s: float, idle_s: float) -> None:
        if cpu_s > BUDGET_S or idle_s > IDLE_BUDGET_S:
            self._over[nodeid] = f"{cpu_s:.1f} s of processor time, {idle_s:.1f} s idle"

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._fails and self._over and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._over:
            return
        limits = f"{BUDGET_S:g} s of processor time or {IDLE_BUDGET_S:g} s of idle time"
        terminalreporter.section(f"over the budget of {limits}: make them faster, or mark them slow")
        for nodeid, took in sorted(self._over.items()):
            terminalreporter.line(f"{nodeid}: {took}")
