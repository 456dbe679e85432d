"""`bench all`: parts in separate processes, kept even if others fail."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any, ClassVar

import psutil  # type: ignore[import-untyped]
import pytest
from typer.testing import CliRunner

from holdfast.errors import SettingsError
from holdfast.lab.bench import parts
from holdfast.lab.bench.measure.results import FILE, read_measured
from holdfast.lab.bench.parts import Part, all_parts, choose, run_part
from holdfast.lab.bench.run_all import bench_all
from holdfast.lab.commands import bench as command
from holdfast.lab.load.failure import BenchFailed

QUICK = ("--seconds", "0.1", "--up-to", "10")
WITHIN_S = 60.0


def figures_in(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / FILE).read_text())
    return found


def kept_from_before(directory: Path) -> dict[str, Any]:
    """Settlement, as if it had been measured a day ago."""
    machine = {"engine": "sqlite", "date": "2026-11-15T10:00:00+00:00", "seconds": 3.0}
    part = {
        "bench": "settlement", "engine": "sqlite", "figures": {"holdfast": 2_928.0}, "ratios": {}, "machine": machine,
        "latency_ms": {}, "rounds": {},
    }  # fmt: skip
    (directory / FILE).parent.mkdir()
    (directory / FILE).write_text(json.dumps({"date": machine["date"], "benches": [part]}))
    return part


def test_parts_are_measured_others_kept_and_failures_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = kept_from_before(tmp_path)
    broken = Part("gate", "abacus", ("gate", "--engine", "abacus"), 0.1)
    every = [broken, *all_parts(0.1, 10)]
    monkeypatch.setattr(command, "all_parts", lambda *_: every)
    monkeypatch.setattr("holdfast.lab.commands.bench.signal.signal", lambda *_: None)
    only = ["--only", "gate:abacus,growth:sqlite"]
    result = CliRunner().invoke(command.app, ["all", *only, "--out", str(tmp_path), "--json"])
    assert result.exit_code == 1
    assert "gate on abacus failed" in result.stderr

    found = figures_in(tmp_path)
    assert json.loads(result.stdout) == found
    assert [one["bench"] for one in found["benches"]] == ["settlement", "growth"]
    assert found["benches"][0] == kept
    assert found["date"] == found["benches"][1]["machine"]["date"]
    assert [one["engine"] for one in found["failed"]] == ["abacus"]
    text = (tmp_path / "BENCHMARKS.md").read_text()
    assert "earlier: settlement on sqlite 2026-11-15" in text
    assert "2,928" in text
    assert "gate on abacus" in text
    assert f"{found['benches'][1]['figures']['waiting_256']:,.0f}" in text
    assert (tmp_path / "benchmarks" / "growth-held.svg").exists()


# A shell starts background jobs with SIGINT ignored, which their children inherit.
IN_THE_BACKGROUND = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]


def test_a_stopped_run_keeps_what_was_measured(tmp_path: Path) -> None:
    """SIGTERM, which is handled as Ctrl-C."""
    asked = ["all", *QUICK, "--only", "growth:sqlite,growth:postgres", "--out", str(tmp_path)]
    child = subprocess.Popen(
        [*IN_THE_BACKGROUND, sys.executable, "-m", "holdfast", "bench", *asked],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        since = monotonic()
        while not (tmp_path / FILE).exists():
            if monotonic() - since > WITHIN_S:
                raise TimeoutError("the first part did not end")
            sleep(0.05)
        child.terminate()
        child.wait(WITHIN_S)
    finally:
        child.kill()
        child.wait()
    assert child.returncode not in (0, 1)
    assert [one["engine"] for one in figures_in(tmp_path)["benches"]] == ["sqlite"]
    assert "## Growth" in (tmp_path / "BENCHMARKS.md").read_text()


def test_a_part_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_PATIENCE_S", 0.5)
    monkeypatch.setattr(parts, "_PATIENCE", 0.0)
    with pytest.raises(BenchFailed):
        run_part(Part("gate", "sqlite", ("gate", "--seconds", "600"), 0.1), lambda _: None)


def in_session(session: int) -> list[str]:
    """The names of its processes."""
    found = []
    for pid in psutil.pids():
        with suppress(OSError, psutil.Error):
            if os.getsid(pid) == session and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(psutil.Process(pid).name())
    return found


class WhenThereIsAServer(Thread):
    """Instead of a timer, which would fire too early or too late."""

    sessions: ClassVar[list[int]] = []

    def __init__(self, _seconds: float, end: Callable[[Any], None], given: list[Any]) -> None:
        super().__init__()
        self._end, self._child = end, given[0]

    def run(self) -> None:
        self.sessions.append(self._child.pid)
        since = monotonic()
        while "valkey-server" not in in_session(self._child.pid) and monotonic() - since < WITHIN_S:
            sleep(0.05)
        self._end(self._child)

    def cancel(self) -> None:
        self.join()


def test_a_part_that_is_stopped_stops_its_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "Timer", WhenThereIsAServer)
    with pytest.raises(BenchFailed):
        run_part(Part("gate", "redis", ("gate", "--engine", "redis", "--seconds", "600"), 0.1), lambda _: None)
    assert in_session(WhenThereIsAServer.sessions.pop()) == []


def test_all_parts_are_every_bench_on_every_engine_it_has() -> None:
    every = [(part.bench, part.engine) for part in all_parts(3.0, 1_000_000)]
    assert len(every) == len(set(every)) == 14
    assert {bench for bench, _ in every} == {"gate", "http", "room", "settlement", "growth", "approaches"}
    assert sum(part.planned_s for part in all_parts(3.0, 1_000_000)) < 15 * 60


def test_only_names_benches_or_one_engine_of_them() -> None:
    every = all_parts(3.0, 1_000)
    assert choose(every, None) == every
    assert [part.name for part in choose(every, "room, growth:redis")] == [
        "room on sqlite", "room on postgres", "growth on redis",
    ]  # fmt: skip
    with pytest.raises(SettingsError, match="there is no 'rooms'"):
        choose(every, "rooms")


def test_an_unrelated_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / FILE).parent.mkdir()
    (tmp_path / FILE).write_text('{"benches": 5}')
    with pytest.raises(SettingsError, match="is not what `holdfast bench all` wrote"):
        bench_all([], [], tmp_path)
    assert read_measured(tmp_path / "elsewhere").benches == []
