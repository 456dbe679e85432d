"""What a request costs, in function calls: the same on every machine, so more of them is a regression."""

import json
import subprocess
import sys
import threading

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from holdfast.lab.bench.budgets.calls import CallCounter
from holdfast.lab.bench.budgets.run import Cost, python_version, read_budgets
from holdfast.lab.commands import bench as command

KINDS = {"reserve", "purchase", "keyed_refusal", "now", "join"}
COST = Cost("sqlite", "reserve", 110.0, 100.0)


@pytest.mark.parametrize("engine", ["sqlite", "postgres", "redis"])
def test_no_request_costs_over_a_tenth_more_than_its_budget(engine: str) -> None:
    # In a process of its own, where no other test has started a thread or left a timer.
    asked = [sys.executable, "-m", "holdfast", "bench", "budgets", "--engine", engine, "--json"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{done.stderr}{done.stdout}\nIf it is worth it: holdfast bench budgets --record"
    found = {cost["kind"]: cost["calls"] for cost in json.loads(done.stdout)["calls"]}
    assert set(found) == KINDS
    assert min(found.values()) > 10


def test_every_engine_has_a_budget_for_every_request() -> None:
    assert read_budgets()
    for version, engines in read_budgets().items():
        assert set(engines) == {"sqlite", "postgres", "redis"}, version
        assert all(set(kinds) == KINDS for kinds in engines.values()), version


def calls_of(times: int) -> int:
    def work() -> None:
        for _ in range(times):
            len("")

    with CallCounter().installed() as counter:
        before = counter.total()
        work()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return counter.total() - before


def test_calls_are_counted_exactly_in_every_thread() -> None:
    calls_of(1)
    assert calls_of(1_100) - calls_of(100) == 2 * 1_000


def test_a_cost_is_over_only_beyond_a_tenth_and_never_without_a_budget() -> None:
    assert not COST.is_over
    assert replace(COST, calls=110.1).is_over
    assert not replace(COST, budget=None).is_over


@pytest.mark.parametrize(("calls", "status"), [(110.0, 0), (111.0, 1)])
def test_a_request_over_its_budget_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, calls: float, status: int
) -> None:
    monkeypatch.setattr(command, "costs", lambda _: [replace(COST, calls=calls)])
    monkeypatch.setattr("holdfast.lab.commands.bench.signal.signal", lambda *_: None)
    result = CliRunner().invoke(command.app, ["budgets", "--engine", "sqlite"])
    assert result.exit_code == status
    assert ("a tenth over 100" in result.output) == bool(status)


def test_this_version_of_python_is_named_as_in_the_file() -> None:
    assert python_version() == f"{sys.version_info.major}.{sys.version_info.minor}"
