"""What the tests of the room share. A pytest plugin and not a conftest.py, as in tests/http."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from room_world import Hall, hall_on

from valkeys import ValkeyProcess


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, ValkeyProcess | None]:
    """The ledger's address, and the gate, if that is another."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'holdfast.db'}", None
    url = request.getfixturevalue("_swept_postgres_url")
    return url, request.getfixturevalue("steady_valkey") if request.param == "redis" else None


@pytest.fixture
async def hall(site: tuple[str, ValkeyProcess | None]) -> AsyncIterator[Hall]:
    async with hall_on(*site) as hall:
        yield hall
