"""The circuit breaker of a payment provider, in front of a real sandbox."""

from pathlib import Path

import pytest
from sandbox_process import running_sandbox

from holdfast.errors import EngineError, Unavailable
from holdfast.payments import guarded
from holdfast.payments.guarded import FAILURES_MAX, GuardedProvider
from holdfast.payments.port import Charge, PaymentState, RefundRefused
from holdfast.payments.sandbox.client import SandboxProvider
from holdfast.runtime.breaker import Circuit


def charge(key: str) -> Charge:
    return Charge(key, 100, "EUR", "ada", "rsv_1", "drop")


@pytest.mark.daily
async def test_the_breaker_opens_while_it_is_down_and_one_probe_closes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_sandbox(tmp_path) as sandbox:
        provider = GuardedProvider("sandbox", SandboxProvider(sandbox.url, 20.0))
        assert (await provider.authorise(charge("k0"))).state is PaymentState.AUTHORISED
        sandbox.kill()
        for n in range(FAILURES_MAX):
            assert provider.breaker.is_closed
            # Over a connection that was open when it died, nobody can say how far the first of them came.
            with pytest.raises(EngineError):
                await provider.authorise(charge(f"k{n}"))
        assert provider.breaker.state is Circuit.OPEN
        with pytest.raises(Unavailable, match="nothing was sent"):
            await provider.look_up("k0")

        await sandbox.start()
        monkeypatch.setattr(guarded, "monotonic", lambda: float("inf"))
        assert (await provider.authorise(charge("k1"))).state is PaymentState.AUTHORISED
        assert provider.breaker.is_closed
        await provider.close()


async def test_a_refusal_is_an_answer(tmp_path: Path) -> None:
    async with running_sandbox(tmp_path) as sandbox:
        provider = GuardedProvider("sandbox", SandboxProvider(sandbox.url, 20.0))
        paid = await provider.capture(await provider.authorise(charge("k0")))
        for n in range(2 * FAILURES_MAX):
            with pytest.raises(RefundRefused):
                await provider.refund(paid, 1_000, f"r{n}")
        assert provider.breaker.is_closed
        await provider.close()
