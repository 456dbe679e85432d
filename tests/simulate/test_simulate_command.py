"""What `holdfast simulate` prints for programs."""

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from holdfast.cli.app import app
from holdfast.lab.simulate.many import Result


def simulated(*options: str) -> tuple[int, str]:
    answer = CliRunner().invoke(app, ["simulate", *options], prog_name="holdfast")
    return answer.exit_code, answer.stdout


@pytest.fixture(autouse=True)
def _seed_7_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_many(first: int, count: int, engine: str) -> Iterator[Result]:
        del engine
        for seed in range(first, first + count):
            yield Result(seed, ("sold twice",) if seed == 7 else (), faults=1, simulated_s=2.0)

    monkeypatch.setattr("holdfast.lab.simulate.many.run_many", run_many)


def test_failed_runs_are_one_object_and_status_1() -> None:
    code, out = simulated("--first", "5", "--seeds", "4", "--json")
    failed = [{"seed": 7, "violations": ["sold twice"]}]
    assert (code, json.loads(out)) == (1, {"ok": False, "runs": 4, "failed": failed})


def test_runs_that_hold_are_one_object_and_status_0() -> None:
    assert [simulated(*options)[0] for options in (("--seeds", "5", "--json"), ("--seed", "6", "--json"))] == [0, 0]
    assert json.loads(simulated("--seed", "6", "--json")[1]) == {"ok": True, "runs": 1, "failed": []}


def test_a_trace_is_no_object() -> None:
    assert simulated("--seed", "6", "--trace", "--json") == (2, "")
