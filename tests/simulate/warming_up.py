"""The first run of a process takes longer than the others."""

import pytest

from holdfast.lab.simulate.run import run


@pytest.fixture(scope="session", autouse=True)
def warmed_up() -> None:
    """It migrates a ledger and compiles every statement."""
    run(0)
    run(3)
    run(0, engine="redis")
