"""The conformance suite on every provider."""

import pytest
from provider_conformance import ProviderConformance
from sandbox_process import SandboxProcess
from stages import SandboxStage, StripeStage

from conftest import exercised
from stripe_server import StripeServer

pytest_plugins = ("payment_fixtures",)


class TestSandbox(ProviderConformance):
    @pytest.fixture
    def stage(self, sandbox: SandboxProcess) -> SandboxStage:
        exercised("sandbox")
        return SandboxStage(sandbox)


class TestStripe(ProviderConformance):
    @pytest.fixture
    def stage(self, stripe: StripeServer) -> StripeStage:
        exercised("stripe")
        return StripeStage(stripe)
