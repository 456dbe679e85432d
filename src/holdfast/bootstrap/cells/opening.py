"""Opens the services of one cell, again and again until its stores answer; the others do not wait for it.

A cell whose stores are away at the start is tried every second. Once open, it is like a server of its own: its breakers
and its background work look after it, and nothing that is wrong with it touches the others.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Generic, TypeVar

import structlog
from sqlalchemy import Connection

from holdfast.bootstrap.stores import open_ledger
from holdfast.errors import EngineError
from holdfast.ledger.cells.own import claim_identity
from holdfast.ledger.engine.database import Database
from holdfast.settings import Settings

log = structlog.get_logger()

RETRY_S = 1.0
# A store that has not answered by now may be frozen: the start continues without it.
PATIENCE_S = 3.0

T = TypeVar("T")


class Opening(Generic[T]):
    """Keeps something open that belongs to a cell."""

    def __init__(self, name: str, opened: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self.name = name
        self.value: T | None = None
        self.problem = "its stores have not answered yet"
        self._opened = opened
        self._stopping, self._was_tried = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"cell {name}")

    async def wait(self) -> None:
        """Until the first attempt is over, or has taken too long. Raises errors that waiting does not fix."""
        tried = asyncio.create_task(self._was_tried.wait())
        await asyncio.wait([tried, self._task], timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        tried.cancel()
        if self._task.done():
            self._task.result()

    async def close(self) -> None:
        self._stopping.set()
        if self.value is None:
            self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                async with self._opened() as self.value:
                    self._was_tried.set()
                    await self._stopping.wait()
            except EngineError as exc:
                self.problem = str(exc)
                log.warning("cell_unavailable", cell=self.name, error=self.problem)
            finally:
                self.value = None
            self._was_tried.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), RETRY_S)


@asynccontextmanager
async def opened_as(
    cell: str, settings: Settings, opened: Callable[[], AbstractAsyncContextManager[T]]
) -> AsyncIterator[T]:
    """After the cell's ledger was found to be its own."""
    async with open_ledger(settings) as database:
        await database.write(partial(_claim, database, cell))
    async with opened() as value:
        yield value


def _claim(database: Database, cell: str, connection: Connection) -> None:
    claim_identity(connection, cell, database.now_ms(connection))
