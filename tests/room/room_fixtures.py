"""What the tests of the room share. A pytest plugin and not a conftest.py, as in tests/http."""

from collections.abc import AsyncIterator

import pytest
from room_setup import RoomSetup, room_setup_on

from conftest import Swept
from valkeys import ValkeyProcess


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def site(request: pytest.FixtureRequest) -> tuple[str, ValkeyProcess | None]:
    """The ledger's address, and the gate, if that is another."""
    if request.param == "sqlite":
        return request.getfixturevalue("_swept_sqlite_url"), None
    url = request.getfixturevalue("_swept_postgres_url")
    return url, request.getfixturevalue("valkey_server") if request.param == "redis" else None


@pytest.fixture
async def queue(site: tuple[str, ValkeyProcess | None], swept: Swept) -> AsyncIterator[RoomSetup]:
    url, valkey = site
    async with room_setup_on(await swept(url), valkey) as queue:
        yield queue
