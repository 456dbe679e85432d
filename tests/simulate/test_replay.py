"""A run is a function of its seed."""

import os
import subprocess
import sys

import pytest
from sqlalchemy import Connection
from warming_up import warmed_up  # noqa: F401 - a fixture

from holdfast.lab.simulate.ledger.connection import QuickConnection
from holdfast.lab.simulate.run import run

SEED = 133


@pytest.mark.parametrize("engine", ["sql", "redis"])
def test_two_runs_of_a_seed_are_the_same_to_the_last_line(engine: str) -> None:
    first, second = run(SEED, engine=engine), run(SEED, engine=engine)
    assert first.trace.lines == second.trace.lines
    assert first.trace.digest == second.trace.digest


def test_two_seeds_differ() -> None:
    assert run(SEED).trace.digest != run(SEED + 1).trace.digest


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["1", "4711"])
@pytest.mark.parametrize("engine", ["sql", "redis"])
def test_another_process_replays_a_run_exactly(hash_seed: str, engine: str) -> None:
    code = f"from holdfast.lab.simulate.run import run; print(run({SEED}, engine='{engine}').trace.digest)"
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == run(SEED, engine=engine).trace.digest


@pytest.mark.parametrize("seed", [SEED, SEED + 7])
def test_a_run_is_the_same_if_sqlalchemy_executes_every_statement(seed: int) -> None:
    quick = run(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QuickConnection, "execute", Connection.execute)
        assert run(seed).trace.digest == quick.trace.digest
