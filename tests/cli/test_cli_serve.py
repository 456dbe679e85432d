"""Starting and stopping `holdfast serve` and `holdfast worker`."""

import shlex
import signal
import subprocess
import time
from pathlib import Path

import httpx
import pytest
from cli_running import TIMEOUT_S, Cli, run_all, stop

from holdfast.lab.load.engines import free_port


def await_ready(process: subprocess.Popen[str], port: int) -> None:
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/healthz/ready", verify=False, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    assert process.poll() is None, f"it ended with {process.poll()}"
    raise TimeoutError("not ready")


@pytest.mark.slow
def test_a_server_greets_is_seen_by_doctor_refuses_a_second_and_stops_on_ctrl_c(tmp_path: Path) -> None:
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
    assert "HOLDFAST_DATABASE_URL=postgresql://" in second.err
    assert "already runs the background tasks" in worker.err
    assert "holdfast serve --no-background" in worker.err
    found = {check["name"]: check["found"] for check in doctor.json["checks"]}
    assert found["server"] == f"a server is running (process {server.pid}); a worker is running (process {server.pid})"


@pytest.mark.slow
@pytest.mark.parametrize("first", [None, "holdfast pools create demo --units 500 --data 'my data'"])
def test_the_commands_in_the_greeting_work(first: str | None, tmp_path: Path) -> None:
    cli, port = Cli(tmp_path), free_port()
    if first is None:
        cli("pools", "create", "shoe", "--units", "500", "--data", "my data")
    with cli.started("serve", "--port", str(port), "--data", "my data") as server:
        await_ready(server, port)
        assert server.stderr is not None
        greeting = "".join(server.stderr.readline() for _ in range(5 if first is None else 6))
        shown, _, curl = greeting.partition("Try:")
        assert [line.split(maxsplit=1)[1] for line in shown.splitlines() if line.startswith("First:")] == (
            [] if first is None else [first]
        )
        if first is not None:
            cli(*shlex.split(first)[1:])
        curl = curl.strip().replace("curl", "curl --silent --noproxy '*'", 1)
        answer = subprocess.run(["sh", "-c", curl], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert '"available":500' in answer.stdout
    assert [line for line in greeting.splitlines() if len(line) > 80 and str(tmp_path) not in line] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_stops_on_signals(tmp_path: Path, number: signal.Signals) -> None:
    with Cli(tmp_path).started("worker") as worker:
        assert worker.stderr is not None
        # On a busy machine, log lines about a slow store come first.
        assert any(line.startswith("Working on ") for line in iter(worker.stderr.readline, ""))
        database = tmp_path / "data" / "holdfast.db"
        until = time.monotonic() + TIMEOUT_S
        while not database.exists() and time.monotonic() < until:
            time.sleep(0.05)
        code, err = stop(worker, number)
    assert code == 0
    assert "Traceback" not in err
    assert '"event": "stopped"' in err
