"""What the tests of the room share. A pytest plugin and not a conftest.py, as in tests/http."""

from collections.abc import AsyncIterator

import pytest
from room_setup import RoomSetup, room_setup_on

from conftest import Swept
from valkeys import ValkeyProcess


@pytest.fixture
async def queue(site: tuple[str, ValkeyProcess | None], swept: Swept) -> AsyncIterator[RoomSetup]:
    url, valkey = site
    async with room_setup_on(await swept(url), valkey) as queue:
        yield queue
