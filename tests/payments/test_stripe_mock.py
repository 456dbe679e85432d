"""Our requests, checked by Stripe's own mock server: it knows every parameter there is, and keeps no state.

It is installed by `make stripe-mock`, which needs Go; without it these tests are skipped.
"""

import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from http_calling import eventually
from stages import new_charge

from holdfast.errors import OutcomeUnknown
from holdfast.lab.load.engines import free_port
from holdfast.payments.port import Payment, PaymentState
from holdfast.payments.stripe.connection import StripeConnection, StripeRefusal
from holdfast.payments.stripe.provider import StripeProvider, _creation

pytestmark = pytest.mark.slow
API_KEY = "sk_test_123"
PROGRAM = shutil.which("stripe-mock", path=str(Path(sys.executable).parent)) or shutil.which("stripe-mock")


@pytest.fixture(scope="module")
def stripe_mock() -> Iterator[str]:
    if PROGRAM is None:
        pytest.skip("stripe-mock is not installed: make stripe-mock")
    url, tls = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    process = subprocess.Popen([PROGRAM, "-http-addr", url, "-https-addr", tls], stdout=subprocess.DEVNULL)
    try:
        eventually(lambda: _answers(f"http://{url}"))
        yield f"http://{url}"
    finally:
        process.terminate()
        process.wait(10)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).status_code > 0
    except httpx.TransportError:
        return False


@pytest.fixture
async def connection(stripe_mock: str) -> AsyncIterator[StripeConnection]:
    made = StripeConnection(API_KEY, 5.0, stripe_mock)
    yield made
    await made.close()


@pytest.mark.parametrize("method", ["ctoken_1", "pm_card_visa", None])
async def test_stripe_knows_every_parameter_of_a_charge(connection: StripeConnection, method: str | None) -> None:
    charge = new_charge(method, customer="cus_1")
    received = await connection.call("post", "payment_intents", _creation(charge), "key-1")
    assert received.data["object"] == "payment_intent"


async def test_stripe_refuses_a_parameter_it_does_not_know(connection: StripeConnection) -> None:
    """The control: the mock server does check."""
    with pytest.raises(StripeRefusal, match="not allowed"):
        await connection.call("post", "payment_intents", _creation(new_charge("ctoken_1")) | {"no_such": "1"}, "key-2")


async def test_stripe_knows_every_other_call(stripe_mock: str) -> None:
    """It answers with an intent of its own, so that nothing is known about ours, but no request is refused."""
    provider = StripeProvider(API_KEY, 5.0, stripe_mock)
    payment = Payment("k", PaymentState.AUTHORISED, "pi_1", amount=100)
    try:
        for call in (provider.capture(payment), provider.void(payment), provider.look_up("k", "pi_1")):
            with pytest.raises(OutcomeUnknown, match="another payment"):
                await call
        assert await provider.next_action("k", "pi_1") is None
        assert (await provider.list_since(0)).payments == []
        assert await provider.look_up("unknown") is None
        assert (await provider.refund(payment, 100, "r")).amount == 100
    finally:
        await provider.close()
