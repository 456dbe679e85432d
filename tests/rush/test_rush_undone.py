"""A rush against somebody's server takes its payment faults back, however it ends."""

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest
from http_calling import eventually
from http_serving import BUYER_SECRET, SERVICE_KEY, settings_of, started
from settle_sandbox import Sandbox, running_sandbox

from forking import HOLDFAST
from holdfast.lab.rush.server.payment_faults import payment_faults
from holdfast.lab.rush.server.target import Target

OWN = {"slow": 0.25, "slow_ms": 1}


def faults(sandbox: Sandbox) -> dict[str, float]:
    found: dict[str, float] = sandbox.client.get("/faults").json()
    return {name: found[name] for name in ("lost_reply", "error", "slow", "slow_ms")}


def target(sandbox: Sandbox) -> Target:
    return Target("http://127.0.0.1:1", "", sandbox_url=sandbox.url)


async def interrupted(sandbox: Sandbox) -> None:
    async with payment_faults(target(sandbox), 0.5, 1):
        assert faults(sandbox) == {"lost_reply": 0.25, "error": 0.25, "slow": 0, "slow_ms": 1000}
        raise asyncio.CancelledError


async def test_faults_are_those_from_before_again_after_an_interruption_too() -> None:
    with running_sandbox() as sandbox:
        sandbox.faults(**OWN)
        with pytest.raises(asyncio.CancelledError):
            await interrupted(sandbox)
        assert faults(sandbox) == {"lost_reply": 0, "error": 0} | OWN
        # A rush that was killed has left these.
        sandbox.faults(seed=1, lost_reply=0.25, error=0.25)
        async with payment_faults(target(sandbox), 0.5, 1):
            pass
        assert faults(sandbox)["lost_reply"] == 0


async def test_what_cannot_be_undone_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with running_sandbox() as sandbox:
        async with payment_faults(target(sandbox), 0.5, 1):
            os.kill(sandbox.pid, signal.SIGKILL)
        said = capsys.readouterr().err
    assert f"Not undone: the payment faults that this rush set at {sandbox.url}/faults" in said
    assert f"curl -X PUT {sandbox.url}/faults -d '{{}}'" in said


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_rush_that_is_interrupted_takes_its_faults_back(tmp_path: Path, number: signal.Signals) -> None:
    scenario = tmp_path / "long.toml"
    scenario.write_text(
        'name = "Long"\nusers = 30\nunits = 5\n[sale]\npayment = "sandbox"\n'
        "[arrival]\nover_seconds = 600\n[crowd]\ncard_troubles = 0.5\n"
    )
    with running_sandbox() as sandbox, started(tmp_path, settings={"PAYMENT_SANDBOX_URL": sandbox.url}) as server:
        sandbox.faults(**OWN)
        keys = {"SERVICE_KEY": SERVICE_KEY, "BUYER_SECRET": BUYER_SECRET, "PAYMENT_SANDBOX_URL": sandbox.url}
        rush = subprocess.Popen(
            [*HOLDFAST, "rush", "--url", server.url, "--scenario", scenario, "--quiet"],
            cwd=tmp_path, env=settings_of(tmp_path, keys), stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - as a terminal
        )  # fmt: skip
        try:
            eventually(lambda: faults(sandbox)["lost_reply"] == 0.25, within_s=90)
            rush.send_signal(number)
            _, said = rush.communicate(timeout=90)
        finally:
            rush.kill()
            rush.wait()
        assert rush.returncode != 0
        assert "Not undone" not in said
        assert faults(sandbox) == {"lost_reply": 0, "error": 0} | OWN
