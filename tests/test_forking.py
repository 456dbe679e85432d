"""Commands that run in forks of one process are like those that `python -m holdfast` starts."""

import os
import signal
import subprocess
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from forking import HOLDFAST, run, spent_s, start


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return dict(os.environ) | {"HOLDFAST_DATA": str(tmp_path / "data")}


@pytest.mark.parametrize("arguments", [["--version"], ["pools", "list", "--json"], ["pools", "list", "--wrong"]])
def test_output_and_exit_status_are_the_same(arguments: list[str], tmp_path: Path, environment: dict[str, str]) -> None:
    command = [*HOLDFAST, *arguments]
    forked = run(command, cwd=tmp_path, env=environment, timeout=60)
    started = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)


def test_a_process_that_is_killed_leaves_nothing(tmp_path: Path, environment: dict[str, str]) -> None:
    before_s = spent_s()
    with (tmp_path / "log").open("wb") as log:
        process = start([*HOLDFAST, "worker"], cwd=tmp_path, env=environment, stdout=log, stderr=log)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    assert process.poll() is None
    process.kill()
    assert process.wait(60) == process.returncode == -signal.SIGKILL
    assert not psutil.pid_exists(process.pid)
    assert spent_s() > before_s
    process.terminate()
