"""Fixtures of the payment tests, as a plugin: mypy accepts only one module named `conftest`."""

from collections.abc import AsyncIterator

import pytest
from sandbox_process import SandboxProcess, running_sandbox

from stripe_server import StripeServer, running_stripe


@pytest.fixture(scope="session")
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SandboxProcess]:
    """Shared by all tests that set no faults."""
    async with running_sandbox(tmp_path_factory.mktemp("sandbox")) as process:
        yield process


@pytest.fixture(scope="session")
async def stripe() -> AsyncIterator[StripeServer]:
    async with running_stripe() as server:
        yield server
