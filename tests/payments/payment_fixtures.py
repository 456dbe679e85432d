"""What the tests of payments share, as a plugin: mypy knows one module by the name of `conftest`."""

from collections.abc import AsyncIterator

import pytest
from sandbox_process import SandboxProcess, running_sandbox

from stripe_server import StripeServer, running_stripe


@pytest.fixture(scope="session")
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SandboxProcess]:
    """One for all tests that leave its faults alone."""
    async with running_sandbox(tmp_path_factory.mktemp("sandbox")) as process:
        yield process


@pytest.fixture(scope="session")
async def stripe() -> AsyncIterator[StripeServer]:
    async with running_stripe() as server:
        yield server
