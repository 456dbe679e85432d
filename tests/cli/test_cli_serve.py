"""`holdfast serve` and `holdfast worker`, as a person starts and stops them."""

import shlex
import signal
import subprocess
import time
from pathlib import Path

import httpx
import pytest
from cli_running import TIMEOUT_S, Cli, run_all, stop

from holdfast.bench.engines import free_port


def await_ready(process: subprocess.Popen[str], port: int) -> None:
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/healthz/ready", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError(f"not ready, exit status {process.poll()}")


def test_a_server_greets_is_seen_by_the_doctor_refuses_a_second_and_stops_on_ctrl_c(tmp_path: Path) -> None:
    cli, port = Cli(tmp_path), free_port()
    with cli.started("serve", "--port", str(port), "--data", "my data") as server:
        await_ready(server, port)
        second, worker, doctor = run_all(
            [
                (cli, ["serve", "--port", str(free_port()), "--data", "my data"]),
                (cli, ["worker", "--data", "my data"]),
                (cli, ["doctor", "--data", "my data", "--json"]),
            ]
        )
        code, greeting = stop(server, signal.SIGINT)
    assert code == 0
    assert f"http://127.0.0.1:{port}/docs" in greeting
    assert str(tmp_path / "my data" / "holdfast.db") in greeting

    for refused in (second, worker):
        assert refused.code == 2
        assert f"process {server.pid}" in refused.err
        assert "HOLDFAST_DATABASE_URL=postgresql://" in refused.err
    found = {check["name"]: check["found"] for check in doctor.json["checks"]}
    assert found["server"] == f"a server runs (process {server.pid}); a worker runs (process {server.pid})"


def test_the_command_in_the_greeting_works_as_it_is(tmp_path: Path) -> None:
    cli, port = Cli(tmp_path), free_port()
    cli("pools", "create", "demo", "--units", "7", "--data", "my data")
    with cli.started("serve", "--port", str(port), "--data", "my data") as server:
        await_ready(server, port)
        assert server.stderr is not None
        [command] = [line for line in (server.stderr.readline() for _ in range(3)) if line.startswith("Try:")]
        curl = command.removeprefix("Try:").strip().replace("curl", "curl --silent --noproxy '*'", 1)
        answer = subprocess.run(["sh", "-c", curl], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert '"available":7' in answer.stdout
    assert shlex.split(curl)[0] == "curl"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_stops_when_it_is_told_to(tmp_path: Path, number: signal.Signals) -> None:
    with Cli(tmp_path).started("worker") as worker:
        assert worker.stderr is not None
        assert worker.stderr.readline().startswith("Working on ")
        database = tmp_path / "data" / "holdfast.db"
        until = time.monotonic() + TIMEOUT_S
        while not database.exists() and time.monotonic() < until:
            time.sleep(0.05)
        code, err = stop(worker, number)
    assert code == 0
    assert "Traceback" not in err
