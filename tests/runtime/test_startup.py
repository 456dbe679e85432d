"""A server that is told to stop while it starts has stopped well, whatever became of the start."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from holdfast.bootstrap.starting import Startup
from holdfast.errors import Unavailable


async def test_a_start_that_fails_because_it_is_cut_off_is_a_stop() -> None:
    """As a driver that finds its connection closed under it, while it opens or while it gives up what it opened."""
    stop, is_opening = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def slow_store() -> AsyncIterator[str]:
        is_opening.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Unavailable("the connection was closed") from None
        yield "opened"

    async with AsyncExitStack() as stack:
        starting = asyncio.create_task(Startup(600.0, stop).enter(stack, slow_store))
        await is_opening.wait()
        stop.set()
        async with asyncio.timeout(60.0):
            assert await starting is None


async def test_a_start_that_fails_by_itself_is_an_error() -> None:
    @asynccontextmanager
    async def refusing_store() -> AsyncIterator[None]:
        raise Unavailable("there is no such database")
        yield

    async with AsyncExitStack() as stack:
        with pytest.raises(Unavailable, match="no such database"):
            await Startup(0.0, asyncio.Event()).enter(stack, refusing_store)
